"""Image-like work with slices: blur, gradient, threshold, edges padded by hand."""
import kintsugi as kt


def pad(image):
    rows, columns = image.shape
    wide = kt.zeros(rows + 2, columns + 2)
    wide[1:-1, 1:-1] = image
    wide[0, 1:-1] = image[0]
    wide[-1, 1:-1] = image[-1]
    wide[:, 0] = wide[:, 1]
    wide[:, -1] = wide[:, -2]
    return wide


def blur(image, passes=1):
    for _ in range(passes):
        p = pad(image)
        image = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + 4 * p[1:-1, 1:-1]) / 8
    return image


def gradient(image):
    dx = image[:, 1:] - image[:, :-1]
    dy = image[1:, :] - image[:-1, :]
    return kt.sqrt(dx[:-1] * dx[:-1] + dy[:, :-1] * dy[:, :-1])


def run(image, threshold):
    soft = blur(image, passes=2)
    edges = gradient(soft)
    mask = edges > threshold
    marked = kt.where(mask, edges, 0.0)
    count = mask.sum().item()
    print(f"{count} of {mask.numel()} pixels")
    return soft, marked, image[::2, ::2], image.T[::-1] if False else image.T


def make_arguments(turn):
    size = 6 + turn
    image = kt.zeros(size, size + 1)
    image[2:4, 1:5] = 1.0
    return image, 0.1
