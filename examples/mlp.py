"""A small network, plain and compiled: the same bits, and how long a call takes.

    python examples/mlp.py
"""
import time

import kintsugi as kt


class Policy(kt.nn.Module):
    """From what a robot senses to what its motors do."""

    def __init__(self, senses, motors, width=32):
        super().__init__()
        self.body = kt.nn.Sequential(
            kt.nn.Linear(senses, width), kt.nn.Tanh(), kt.nn.LayerNorm(width), kt.nn.Linear(width, width), kt.nn.GELU(approximate="tanh"))
        self.head = kt.nn.Linear(width, motors)

    def forward(self, x):
        return self.head(self.body(x)).tanh()


def nanoseconds(function, x, calls=2000):
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter_ns()
        for _ in range(calls):
            function(x)
        best = min(best, (time.perf_counter_ns() - start) / calls)
    return best


def main():
    kt.manual_seed(0)
    policy = Policy(12, 4).eval()
    fast = kt.compile(policy, fullgraph=True)
    with kt.no_grad():
        x = kt.randn(1, 12)
        print(policy)
        print("equal:", policy(x).tolist() == fast(x).tolist())
        plain, compiled = nanoseconds(policy, x), nanoseconds(fast, x)
    print(f"plain {plain:,.0f} ns, compiled {compiled:,.0f} ns a call")


if __name__ == "__main__":
    main()
