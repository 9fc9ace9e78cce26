# The record of the break names the function and the reason that was given.
import torch


@torch.compiler.disable(reason="talks to the robot")
def send(x):
    return x


try:
    torch.compile(lambda x: send(x) + 1, fullgraph=True)(torch.ones(1))
except torch._dynamo.exc.Unsupported as error:
    text = str(error)
    print(text.splitlines()[0])
    print("talks to the robot" in text, "send" in text)
print(torch._dynamo.is_dynamo_disable_recursive(send), torch._dynamo.is_dynamo_disable_recursive(len))

# | Skip calling `kt.compiler.disable()`d function
# | True True
# | True None
# breaks: 0
