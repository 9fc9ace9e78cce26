// Matrix products: small ones by our own kernels, large floating ones by OpenBLAS, large integers by a plain loop.
#pragma once
#include "kernels/cpu.h"

namespace kintsugi {

// a @ b as torch's matmul: 1-D operands are a row and a column, leading dimensions broadcast. out has the result's
// sizes, any strides, and overlaps no operand. One routine for given shapes and layouts, whatever surrounds it.
bool run_matmul(TensorView a, TensorView b, TensorView out, OpError* error);

}  // namespace kintsugi
