// Decoding against CPython's own dis module, over the standard library; liveness and stack depth of small functions;
// code objects that no compiler makes. Runs in an embedded interpreter.
#include "jit/bytecode.h"

#include <gtest/gtest.h>

#include <random>

namespace kintsugi {
namespace {

// decode(code) -> (odd, [(offset, name, argument, target, line, depth, names of live locals)], is_loop_header...)
PyObject* decode_for_python(PyObject*, PyObject* code) {
  const Bytecode& bytecode = bytecode_of(reinterpret_cast<PyCodeObject*>(code));
  PyObject* rows = PyList_New(0);
  for (size_t i = 0; i < bytecode.instructions.size(); ++i) {
    const Instruction& instruction = bytecode.instructions[i];
    Ref live(PyList_New(0));
    for (int local = 0; local < bytecode.code->co_nlocalsplus; ++local) {
      if (!bytecode.is_live(static_cast<int>(i), local)) continue;
      PyList_Append(live.get(), PyTuple_GET_ITEM(bytecode.code->co_localsplusnames, local));
    }
    Ref row(Py_BuildValue("(isiiiiOi)", instruction.unit, opcode_name(instruction.opcode), instruction.argument,
                          instruction.target, line_of(bytecode, instruction),
                          stack_depth_at(bytecode, instruction.offset), live.get(),
                          static_cast<int>(bytecode.is_loop_header[i])));
    PyList_Append(rows, row.get());
  }
  Ref handlers(PyList_New(0));
  for (const Handler& handler : bytecode.handlers) {
    Ref row(Py_BuildValue("(iiiii)", handler.start, handler.end, handler.target, handler.depth, int{handler.lasti}));
    PyList_Append(handlers.get(), row.get());
  }
  return Py_BuildValue("(zNO)", bytecode.odd, rows, handlers.get());
}

PyObject* effect_for_python(PyObject*, PyObject* arguments) {
  const char* name;
  int argument, jump;
  if (!PyArg_ParseTuple(arguments, "sii", &name, &argument, &jump)) return nullptr;
  for (int i = 0; i < static_cast<int>(Opcode::kCount); ++i) {
    auto opcode = static_cast<Opcode>(i);
    if (std::string(name) == opcode_name(opcode)) return PyLong_FromLongLong(stack_effect(opcode, argument, jump));
  }
  Py_RETURN_NONE;
}

PyObject* text_for_python(PyObject*, PyObject* code) {
  return PyUnicode_FromString(to_text(bytecode_of(reinterpret_cast<PyCodeObject*>(code))).c_str());
}

PyMethodDef kFunctions[] = {{"decode", decode_for_python, METH_O, nullptr},
                            {"effect", effect_for_python, METH_VARARGS, nullptr},
                            {"text", text_for_python, METH_O, nullptr}};

constexpr const char* kPrelude = R"py(
import dis, opcode, sys, types
def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType): yield from codes(constant)
def live(function, name):  # names of locals live before the first instruction that stores `name`
    odd, rows, handlers = decode(function.__code__)
    assert odd is None, odd
    index = function.__code__.co_varnames.index(name)
    return next(row[6] for row in rows if row[1] == 'STORE_FAST' and row[2] == index)
)py";

class BytecodeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    Py_InitializeEx(0);
    for (PyMethodDef& definition : kFunctions) {
      Ref function(PyCFunction_New(&definition, nullptr));
      PyObject_SetAttrString(PyImport_AddModule("__main__"), definition.ml_name, function.get());
    }
    ASSERT_EQ(PyRun_SimpleString(kPrelude), 0);
  }
  static void TearDownTestSuite() { Py_FinalizeEx(); }
  static void expect_runs(const char* source) { EXPECT_EQ(PyRun_SimpleString(source), 0) << source; }
};

TEST_F(BytecodeTest, TableAgreesWithPython) {
  expect_runs(R"py(
for number, name in enumerate(opcode.opname):
    if name.startswith('<') or name in ('CACHE', 'EXTENDED_ARG'): continue
    assert effect(name, 0, 0) is not None, name
    if name in ('PRECALL', 'CALL', 'RETURN_GENERATOR', 'RERAISE'): continue  # booked elsewhere by the compiler
    for argument in (0, 1, 2, 3, 4, 5, 7, 8, 15, 256, 259) if number >= opcode.HAVE_ARGUMENT else (0,):
        if name == 'BUILD_SLICE' and argument not in (2, 3) or name == 'RAISE_VARARGS' and argument > 2: continue
        if name == 'MAKE_FUNCTION' and argument > 15: continue
        for jump in (0, 1) if number in opcode.hasjrel else (0,):
            given = argument if number >= opcode.HAVE_ARGUMENT else None
            try: expected = dis.stack_effect(number, given, jump=bool(jump))
            except ValueError: continue
            assert effect(name, argument, jump) == expected, (name, argument, jump, expected)
)py");
}

TEST_F(BytecodeTest, AgreesWithDisOverTheStandardLibrary) {
  expect_runs(R"py(
import importlib.util
names = ('dis inspect typing asyncio.tasks asyncio.streams contextlib dataclasses enum argparse ast difflib pickle '
         'decimal _pydecimal datetime tarfile zipfile socket threading unittest.mock unittest.case traceback statistics random '
         'fractions subprocess concurrent.futures.thread xml.dom.minidom http.client email.message turtle').split()
total = 0
for name in names:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.has_location: continue
    for code in codes(spec.loader.get_code(name)):
        odd, rows, handlers = decode(code)
        assert odd is None, (odd, code)
        expected = [i for i in dis.get_instructions(code) if i.opname != 'EXTENDED_ARG']
        lines = {start + k: line for start, end, line in code.co_lines() for k in range(0, end - start, 2)}
        assert len(rows) == len(expected), code
        for (unit, opname, argument, target, line, depth, alive, header), right in zip(rows, expected):
            assert (unit * 2, opname) == (right.offset, right.opname), (code, right)
            if right.arg is not None: assert argument == right.arg, (code, right)
            if right.opcode in opcode.hasjrel: assert target * 2 == right.argval, (code, right, target)
            found = lines.get(right.offset)
            assert line == (-1 if found is None else found), (code, right, line)
            assert depth <= code.co_stacksize
            total += 1
        parsed = dis._parse_exception_table(code)
        assert [(e.start // 2, e.end // 2, e.target // 2, e.depth, int(e.lasti)) for e in parsed] == handlers, code
        if code.co_name == '_run_once': text(code)
assert total > 50000, total
)py");
}

TEST_F(BytecodeTest, Liveness) {
  expect_runs(R"py(
def straight(a, b):
    c = a + b
    d = c
    return d
assert live(straight, 'c') == [] and live(straight, 'd') == []

def kept(a, b):
    c = 1
    return a + c
assert live(kept, 'c') == ['a']

def loop(a, n):
    total = 0
    while n > 0:
        total = total + a
        n = n - 1
    return total
assert live(loop, 'n') == ['a', 'total']
headers = [row for row in decode(loop.__code__)[1] if row[7]]
assert len(headers) == 1 and 'a' in headers[0][6], headers

def handled(a, f):
    x = 1
    try:
        y = f()
        z = 2
    except ValueError:
        return a, x
    return z
assert live(handled, 'x') == ['a', 'f']
assert live(handled, 'y') == ['a', 'x'] and live(handled, 'z') == ['a', 'x']

def deleted(a, b):
    c = 1
    del a
    return c
assert live(deleted, 'c') == ['a']

def cell(a, b):
    c = 1
    return lambda: a
assert live(cell, 'c') == ['a']

def reader(a, b):
    c = 1
    locals()
    return c
assert live(reader, 'c') == ['a', 'b', 'c']

class Base:
    def method(self): return 1
class Derived(Base):
    def method(self):
        c = super().method()
        return c
assert live(Derived.method, 'c') == ['self', '__class__']

wide = {}
exec('def wide(' + ','.join(f'p{i}' for i in range(200)) + '):\n c = 1\n return p150', wide)
assert live(wide['wide'], 'c') == ['p150']
)py");
}

TEST_F(BytecodeTest, Text) {
  expect_runs(R"py(
def f(x):
    return x + 2
assert text(f.__code__) == '''0 RESUME 0
1 LOAD_FAST 0 (x)
2 LOAD_CONST 1 (2)
3 BINARY_OP 0
5 RETURN_VALUE 0
''', text(f.__code__)
)py");
}

TEST_F(BytecodeTest, DiesWithItsCode) {
  expect_runs(R"py(
for i in range(2000):
    space = {}
    exec(f'def f(x):\n return x + {i}', space)
    assert decode(space['f'].__code__)[0] is None
)py");
}

TEST_F(BytecodeTest, SurvivesOddCode) {
  expect_runs(R"py(
import random
def f(a, b=1):
    total = 0
    for i in range(a):
        try:
            with open('x') as g: total += g.read(i)[b]
        except (OSError, ValueError) as e:
            print(e, [j for j in range(b)])
    return total
code = f.__code__
generator = random.Random(1)
odd = 0
for _ in range(20000):
    data, table = bytearray(code.co_code), bytearray(code.co_exceptiontable)
    for _ in range(generator.randrange(1, 4)): data[generator.randrange(len(data))] = generator.randrange(256)
    if generator.random() < 0.5: table[generator.randrange(len(table))] = generator.randrange(256)
    if generator.random() < 0.1: data = data[:generator.randrange(0, len(data), 2)]
    data += bytes([9, 0]) * 10 + bytes([83, 0])  # 3.11's own co_code writes past the end when caches are cut off
    broken = code.replace(co_code=bytes(data), co_exceptiontable=bytes(table))
    odd += decode(broken)[0] is not None
    text(broken)
assert 5000 < odd < 20000, odd
)py");
}

}  // namespace
}  // namespace kintsugi
