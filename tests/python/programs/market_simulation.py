"""Orders as tuples, balances in a defaultdict and Counter, unpacking with a star, prices as tensors, math functions."""
import itertools
import math
from collections import Counter, defaultdict, namedtuple

import kintsugi as kt

Order = namedtuple("Order", "who what count limit", defaults=(None,))


def returns(prices):
    return kt.log(prices[1:] / prices[:-1])


def volatility(prices):
    r = returns(prices)
    return math.sqrt(((r - r.mean()) * (r - r.mean())).mean().item()) * math.sqrt(252)


def execute(orders, prices, names):
    balance, traded = defaultdict(float), Counter()
    refused = []
    for order in orders:
        price = prices[names.index(order.what)].item()
        if order.limit is not None and price > order.limit:
            refused.append(order._replace(limit=None))
            continue
        balance[order.who] -= price * order.count
        traded[order.what] += order.count
    return dict(balance), traded, refused


def run(history, names, orders):
    first, *_, last = history
    balance, traded, refused = execute(orders, last, names)
    growth = last / first - 1
    best = names[growth.argmax().item()]
    pairs = [(a, b) for a, b in itertools.combinations(names, 2)]
    return balance, traded.most_common(1), refused, growth, best, pairs, [volatility(history[:, i]) for i in range(len(names))]


def make_arguments(turn):
    history = kt.tensor([[10.0, 20.0, 5.0], [11.0, 19.0, 5.5], [12.0, 21.0 + turn, 5.0]])
    orders = [Order("ann", "oil", 3), Order("bob", "tin", 10, 4.0), Order("ann", "gas", 1, 100.0)]
    return history, ["oil", "gas", "tin"], orders
