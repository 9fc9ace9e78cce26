# substitute_in_graph: a Python function is followed in place of one written in C.
import operator
import torch


def first_index(sequence, value, /):
    for index, each in enumerate(sequence):
        if each == value:
            return index
    raise ValueError("not there")


torch.compiler.substitute_in_graph(operator.indexOf, skip_signature_check=True)(first_index)
print(torch.compile(lambda x, items: x + operator.indexOf(items, 7), fullgraph=True)(torch.ones(1), [5, 6, 7]).tolist())
try:
    torch.compiler.substitute_in_graph(operator.indexOf, skip_signature_check=True)(first_index)
except ValueError as error:
    print(type(error).__name__)

# | [3.0]
# | ValueError
# breaks: 0
