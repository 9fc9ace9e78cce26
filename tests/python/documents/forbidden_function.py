# forbid_in_graph: meeting the function is an error, whatever the settings.
import torch


@torch._dynamo.forbid_in_graph
def never(x):
    return x


with torch._dynamo.error_on_graph_break(False):
    try:
        torch.compile(lambda x: never(x))(torch.ones(1))
    except AssertionError as error:
        print("forbidden" in str(error), "never" in str(error))
print(never(3))

# | True True
# | 3
# breaks: 0
