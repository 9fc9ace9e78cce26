"""kt.cuda: programs ask whether there is a GPU. Tensors are in main memory only, so there is none for them."""


def is_available():
    """False."""
    return False


def device_count():
    """0."""
    return 0


def synchronize(device=None):
    """Nothing: what was called is done."""


def empty_cache():
    """Nothing: there is no memory of a GPU."""


def manual_seed(seed):
    """Nothing: the stream of kt.manual_seed is the only one."""


manual_seed_all = manual_seed
