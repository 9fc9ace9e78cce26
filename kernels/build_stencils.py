#!/usr/bin/env python3
"""Compiles stencils/*.cpp, and the rows of ops.def, with clang, cuts the machine code of every stencil out of the
object files, and writes one C++ file with the bytes, the holes and the rows that say which stencil serves which (family,
key, dtype, position).

usage: build_stencils.py --clang CLANG --root SOURCE_ROOT --work FOLDER --output FILE.cpp

A stencil is a function named kn__<family>__<key>__<dtype>__<position>. Its last jump, to kn_next, is dropped: the next
stencil is copied right behind it. Anything that copying could not move along (a call, a pointer to data that is not a
constant, a jump table) stops the build with the stencil's name and the kind of relocation.
"""
import argparse
import concurrent.futures
import pathlib
import struct
import subprocess
import sys
import time

import ops_table

SETS = {  # name: (vector bytes, flags)
    "x86-64-v1": (16, ["-march=x86-64"]),
    # All sets must give the same bits, so nothing is contracted to FMA. v4 cannot do without the instruction set:
    # AVX-512 contains it.
    "x86-64-v3": (32, ["-march=x86-64-v3", "-mno-fma"]),
    "x86-64-v4": (64, ["-march=x86-64-v4", "-mprefer-vector-width=512"]),
}
WIDTHS = (32, 64)
MAX_ALIGN = 64  # kMaxConstantAlign
FLAGS = [
    "-std=c++20",
    "-O2",
    "-fno-pic", "-mcmodel=small",  # static relocation: a hole's address becomes a 32-bit immediate or displacement
    "-ffp-contract=off", "-fno-fast-math", "-fwrapv",  # the same bits everywhere
    "-ffreestanding", "-fno-builtin",  # no memset or memcpy made out of a loop: a stencil calls nothing
    "-fno-vectorize", "-fno-slp-vectorize",  # bodies are vectors already; a tail loop is short
    "-fno-jump-tables", "-fno-stack-protector", "-fcf-protection=none",  # nothing beside the body
    "-fno-asynchronous-unwind-tables", "-fno-exceptions", "-fno-rtti",
    "-fomit-frame-pointer", "-ffunction-sections",
    "-Xclang", "-target-feature", "-Xclang", "-vzeroupper",  # registers live on in the next stencil
    "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-psabi", "-Werror",
]

# ELF64 (System V ABI, AMD64 supplement)
SHT_SYMTAB, SHT_RELA = 2, 4
SHF_ALLOC, SHF_EXECINSTR, SHF_MERGE = 0x2, 0x4, 0x10
R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_32, R_X86_64_32S = 2, 4, 10, 11
RELOCATION_NAMES = {
    1: "R_X86_64_64", 2: "R_X86_64_PC32", 4: "R_X86_64_PLT32", 9: "R_X86_64_GOTPCREL", 10: "R_X86_64_32",
    11: "R_X86_64_32S", 24: "R_X86_64_PC64", 41: "R_X86_64_GOTPCRELX", 42: "R_X86_64_REX_GOTPCRELX",
}
JUMPS = {"kn_next": "kNext", "kn_loop": "kLoop", "kn_tail": "kTail"}
NUMBERS = {"kn_operand": "kOperand", "kn_stride": "kStride", "kn_slot": "kSlot"}


class Refused(Exception):
    pass


def text_at(data, offset):
    return data[offset:data.index(b"\0", offset)].decode()


class ObjectFile:
    """Sections, symbols and relocations of one relocatable ELF file."""

    def __init__(self, path):
        data = path.read_bytes()
        if data[:6] != b"\x7fELF\x02\x01":
            raise Refused(f"{path.name}: not a little-endian ELF64 file")
        (offset,) = struct.unpack_from("<Q", data, 0x28)
        size, count, names = struct.unpack_from("<HHH", data, 0x3A)
        fields = ("name", "type", "flags", "address", "offset", "size", "link", "info", "align", "entry_size")
        self.sections = [
            dict(zip(fields, struct.unpack_from("<IIQQQQIIQQ", data, offset + k * size))) for k in range(count)
        ]
        name_table = self.sections[names]["offset"]
        for section in self.sections:
            section["name"] = text_at(data, name_table + section["name"])
            section["bytes"] = data[section["offset"]:section["offset"] + section["size"]]
            section["relocations"] = []
        self.symbols = []
        for section in self.sections:
            if section["type"] == SHT_SYMTAB:
                strings = self.sections[section["link"]]["offset"]
                for at in range(0, section["size"], 24):
                    name, kind, _, index, value, length = struct.unpack_from("<IBBHQQ", section["bytes"], at)
                    self.symbols.append({"name": text_at(data, strings + name), "type": kind & 15, "section": index,
                                         "value": value, "size": length})
        for section in self.sections:
            if section["type"] == SHT_RELA:
                target = self.sections[section["info"]]["relocations"]
                for at in range(0, section["size"], 24):
                    place, kind, symbol, addend = struct.unpack_from("<QIIq", section["bytes"], at)
                    target.append((place, kind, self.symbols[symbol], addend))


class Constants:
    """Constant data of one set, each value once; a kernel gets its own copy of those it uses."""

    def __init__(self):
        self.offsets = {}
        self.data = bytearray()

    def add(self, value, align):
        key = (value, align)
        if key not in self.offsets:
            self.data.extend(b"\0" * (-len(self.data) % align))
            self.offsets[key] = (len(self.offsets), len(self.data))
            self.data.extend(value)
        return self.offsets[key][0]


def constant_hole(name, section, place, addend, constants):
    """Which constant a PC32 reference means. The addend counts from the end of the instruction, and one that ends in
    an immediate byte (a shuffle, a compare) is one byte longer than the field; sizes of constants tell which."""
    if section["relocations"]:
        raise Refused(f"{name}: constant data in {section['name']} itself needs relocation")
    target = addend + 4
    if target % 4 == 3:
        target += 1
    if target % 4 or not 0 <= target < section["size"]:
        raise Refused(f"{name}: unclear reference {addend:+#x} into {section['name']}")
    if section["align"] > MAX_ALIGN:
        raise Refused(f"{name}: constants in {section['name']} are aligned to {section['align']} bytes")
    size = section["entry_size"] if section["flags"] & SHF_MERGE and section["entry_size"] else section["size"]
    start = target - target % size
    value = bytes(section["bytes"][start:start + size])
    return constants.add(value, max(4, section["align"])), addend - start


def read_stencils(path, constants):
    """name -> (code, holes); a hole is (offset, symbol, relative, addend, constant)."""
    objects = ObjectFile(path)
    stencils = {}
    for symbol in objects.symbols:
        name = symbol["name"]
        if not name.startswith("kn__") or symbol["section"] == 0:
            continue
        section = objects.sections[symbol["section"]]
        code = section["bytes"][symbol["value"]:symbol["value"] + symbol["size"]]
        holes = []
        for place, kind, target, addend in section["relocations"]:
            place -= symbol["value"]
            if target["name"] in JUMPS and kind in (R_X86_64_PC32, R_X86_64_PLT32):
                holes.append((place, JUMPS[target["name"]], True, addend, 0))
            elif target["name"] in NUMBERS and kind in (R_X86_64_32, R_X86_64_32S):
                holes.append((place, NUMBERS[target["name"]], False, addend, 0))
            elif kind == R_X86_64_PC32 and target["section"] not in (0, 0xFFF1, 0xFFF2):
                data = objects.sections[target["section"]]
                if not data["flags"] & SHF_ALLOC or data["flags"] & (SHF_EXECINSTR | 1):
                    raise Refused(f"{name}: refers into section {data['name']}")
                constant, addend = constant_hole(name, data, place, addend + target["value"], constants)
                holes.append((place, "kConstant", True, addend, constant))
            else:
                raise Refused(f"{name}: relocation {RELOCATION_NAMES.get(kind, kind)} to "
                              f"'{target['name'] or objects.sections[target['section']]['name']}' is not allowed "
                              "(a stencil calls nothing and points to nothing but constants)")
        # Drop the final jump to the next stencil: jmp rel32 is E9 and four bytes.
        end = len(code)
        if end >= 5 and code[end - 5] == 0xE9 and any(h[0] == end - 4 and h[1] == "kNext" for h in holes):
            code = code[:end - 5]
            holes = [h for h in holes if h[0] != end - 4]
        if len(code) > 0xFFFF:
            raise Refused(f"{name}: {len(code)} bytes are too many")
        stencils[name] = (bytes(code), sorted(holes))
    return stencils


def expand_ops(width):
    """C++ text of the stencils that follow from the rows of ops.def: element-wise ops, folds, conversions."""
    dtypes = [row.name for row in ops_table.read_dtypes() if row.bytes * 8 <= width]
    out = ['#include "kernels/stencils/elementwise.h"\nnamespace kintsugi::stencil {\n']
    for row in ops_table.read_ops():
        for dtype in dtypes:
            expression = row.bool_expression if dtype == "bool" else row.expression
            if dtype not in ops_table.COMPUTE_DTYPES.get(row.dtype_rule, ()) or not expression:
                continue
            if row.op_class == "kReduction":
                out.append(f"KN_FOLD({row.name}, {dtype}, {expression})\n")
            elif row.op_class == "kElementwise":
                form = {"kChoose": "KN_CHOOSE", "kCompare": "KN_COMPARE"}.get(row.dtype_rule, f"KN_OP{row.arity}")
                check = "KN_CHECK_ZERO" if row.may_raise and dtype.startswith("int") else "KN_NO_CHECK"
                out.extend(f"{form}({position}, {row.name}, {dtype}, {check}, {expression})\n"
                           for position in range(5 - row.arity))
    out.extend(f"KN_CONVERT({position}, {source}, {target})\n" for source in dtypes for target in dtypes
               for position in range(4) if source != target)
    out.append("}\n")
    return "".join(out)


def compile_one(clang, root, work, source, set_name, width):
    vector, march = SETS[set_name]
    target = work / f"{source.stem}-{set_name}-{width}.o"
    command = [clang, "-c", str(source), "-o", str(target), "-I", str(root), f"-DKN_WIDTH={width}",
               f"-DKN_VECTOR={vector}", *FLAGS, *march]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"clang failed on {source.name} ({set_name}, {width} bits):\n{done.stderr}")
    return target


def row_of(name):
    """kn__op__add__float32__0 -> the C++ initializer of its row."""
    _, family, key, dtype, position = name.split("__")
    keys = {"op": f"uint16_t(Op::k_{key})", "reduce": f"uint16_t(Op::k_{key})", "reduce_tail": f"uint16_t(Op::k_{key})",
            "convert": f"uint16_t(DType::k_{key})", "loop": f"uint16_t(LoopPart::k_{key})"}
    accesses = {"contiguous": 0, "uniform": 1, "strided": 2, "number": 3, "slot": 4}
    key_text = keys.get(family) or str(accesses[key])
    dtype_text = "0" if dtype == "none" else f"uint8_t(DType::k_{dtype})"
    return f"{{Family::k_{family}, {key_text}, {dtype_text}, {position}, "


def write_output(path, tables, digest):
    out = [f"// Made by build_stencils.py. {digest}\n#include \"kernels/stencil_table.h\"\n\n"
           "namespace kintsugi {\nnamespace {\n"]
    entries = []
    for number, ((set_name, width), stencils) in enumerate(tables["stencils"].items()):
        code, holes, records, rows = bytearray(), [], [], []
        seen = {}
        for name, (body, body_holes) in sorted(stencils.items()):
            same = (body, tuple(body_holes))
            if same not in seen:  # many stencils are byte for byte the same
                seen[same] = len(records)
                records.append((len(code), len(body), len(holes), len(body_holes)))
                code.extend(body)
                holes.extend(body_holes)
            rows.append(f"{row_of(name)}{seen[same]}}},")
        code.extend(b"\0" * 64)  # copying works in whole blocks
        constants = tables["constants"][set_name]
        out.append(f"constexpr uint8_t kCode{number}[] = {{\n{bytes_text(code)}}};\n")
        out.append(f"constexpr StencilHole kHoles{number}[] = {{\n")
        out.extend(f"{{{o}, HoleSymbol::{s}, {int(r)}, {a}, {c}}},\n" for o, s, r, a, c in holes)
        out.append(f"}};\nconstexpr Stencil kStencils{number}[] = {{\n")
        out.extend("{%d, %d, %d, %d},\n" % record for record in records)
        out.append(f"}};\nconstexpr StencilRow kRows{number}[] = {{\n" + "\n".join(rows) + "\n};\n")
        if width == WIDTHS[0]:
            out.append(f"alignas(64) constexpr uint8_t kData{number}[] = {{\n{bytes_text(constants.data)}}};\n")
            out.append(f"constexpr StencilConstant kConstants{number}[] = {{\n")
            out.extend(f"{{{offset}, {len(value)}, {align}}},\n"
                       for (value, align), (_, offset) in constants.offsets.items())
            out.append("};\n")
            data = number
        vector = SETS[set_name][0]
        entries.append(f'{{"{set_name}", {width}, {2 * vector * 8 // width}, {2 * vector}, kCode{number}, '
                       f"kHoles{number}, "
                       f"kStencils{number}, kRows{number}, kData{data}, kConstants{data}}},\n")
    out.append("}  // namespace\n\nstd::span<const StencilTable> stencil_tables() {\n  static const StencilTable "
               "kTables[] = {\n" + "".join(entries) + "};\n  return kTables;\n}\n\n}  // namespace kintsugi\n")
    path.write_text("".join(out))


def bytes_text(data):
    lines = (data[at:at + 32] for at in range(0, len(data), 32))
    return "".join(",".join(map(str, line)) + ",\n" for line in lines)


def main():
    parser = argparse.ArgumentParser()
    for option in ("clang", "root", "output"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--work", help="folder for the object files (default: one beside the output)")
    arguments = parser.parse_args()
    root = pathlib.Path(arguments.root).resolve()
    work = pathlib.Path(arguments.work or arguments.output + ".objects")
    work.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    try:
        version = subprocess.run([arguments.clang, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
        sources = {width: sorted((root / "kernels" / "stencils").glob("*.cpp")) for width in WIDTHS}
        for width in WIDTHS:
            sources[width].append(work / f"ops{width}.cpp")
            sources[width][-1].write_text(expand_ops(width))
        tables = {"stencils": {}, "constants": {name: Constants() for name in SETS}}
        with concurrent.futures.ThreadPoolExecutor() as pool:
            jobs = {(set_name, width): [pool.submit(compile_one, arguments.clang, root, work, source, set_name, width)
                                        for source in sources[width]]
                    for set_name in SETS for width in WIDTHS}
            for (set_name, width), results in jobs.items():
                stencils = {}
                for result in results:
                    stencils.update(read_stencils(result.result(), tables["constants"][set_name]))
                tables["stencils"][set_name, width] = stencils
    except FileNotFoundError:
        sys.exit(f"build_stencils.py: clang not found as '{arguments.clang}': install clang 14 or newer "
                 "(Debian: apt-get install clang-14)")
    except Refused as refused:
        sys.exit(f"build_stencils.py: {refused}")
    count = sum(len(stencils) for stencils in tables["stencils"].values())
    size = sum(len(code) for stencils in tables["stencils"].values() for code, _ in stencils.values())
    digest = f"{count} stencils, {size} bytes of code, {version}"
    write_output(pathlib.Path(arguments.output), tables, digest)
    print(f"{digest}, {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
