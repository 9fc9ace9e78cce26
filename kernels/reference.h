// The meaning of every op: plain scalar C++ over any layout, one element at a time, with the bodies that the stencils
// are made of. Slow on purpose. Called by tests, by run_op for ops without machine code of their own, and wherever
// folding the last few partial results of a reduction must come out the same.
//
// Order of a reduction, a function of the logical shape alone. The elements that fold into one result are numbered row
// major over the reduced dims and cut into blocks of kReductionBlock. In a block, element i goes to partial i mod
// kReductionPartials; each partial starts at write_identity(). finish_partials() joins the partials, combine_blocks()
// the blocks. No elements: one block of identities. mean divides the sum by the count afterwards.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/cpu.h"

namespace kintsugi {

inline constexpr int kReductionPartials = 16;
inline constexpr int64_t kReductionBlock = 4096;  // a multiple of kReductionPartials

// Same contract as run_op. out may not overlap an operand.
bool run_reference(Op op, std::span<const OperandValue> operands, const Attributes& attributes, TensorView out,
                   OpError* error);

// partials[0] = all 16 joined: p[j] += p[j + 8] for j < 8, then 4, 2, 1 apart ("+=" is the op's fold).
void finish_partials(Op op, DType compute, void* partials);
// blocks[0] = all joined in pairs: n blocks are the largest power of two below n, folded with the rest.
void combine_blocks(Op op, DType compute, void* blocks, int64_t count);
// The element of mean: sum / count, in a floating compute dtype.
void divide_by_count(DType compute, void* sum, int64_t count);
// One element of any dtype to another, as op convert does.
void convert_element(DType from, const void* source, DType to, void* target);

}  // namespace kintsugi
