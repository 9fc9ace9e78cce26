// repr() of tensors, as torch prints them: one number format for all elements, columns aligned, lines of 80 characters,
// and the first and last three of each dimension when there are more than 1000 elements.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/tensor_rows.h"

namespace kintsugi {

namespace {

constexpr int64_t kThreshold = 1000;
constexpr int64_t kEdge = 3;
constexpr size_t kLineWidth = 80;
constexpr int kPrecision = 4;

struct Format {
  bool floating = false;
  bool whole = true;        // all values are integers: "2."
  bool scientific = false;  // "2.0000e+10"
  size_t width = 0;
};

double real_at(DType dtype, const char* data) {
  return dtype == DType::k_float32 ? *reinterpret_cast<const float*>(data) : *reinterpret_cast<const double*>(data);
}

std::string printed(const char* format, int precision, double value) {
  char text[400];
  snprintf(text, sizeof(text), format, precision, value);
  return text;
}

std::string real_text(const Format& format, double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (format.scientific) return printed("%.*e", kPrecision, value);
  if (format.whole) return printed("%.*f", 0, value) + ".";
  return printed("%.*f", kPrecision, value);
}

std::string element_text(const Format& format, DType dtype, const char* data) {
  if (format.floating) return real_text(format, real_at(dtype, data));
  if (dtype == DType::k_bool) return *data != 0 ? "True" : "False";
  return std::to_string(dtype == DType::k_int32 ? *reinterpret_cast<const int32_t*>(data)
                                                : *reinterpret_cast<const int64_t*>(data));
}

class Printer {
 public:
  explicit Printer(const TensorObject* tensor)
      : layout_(*tensor->layout), data_(tensor->data), summarise_(layout_.count > kThreshold) {}

  std::string print() {
    if (layout_.count == 0) return "[]";
    choose_format();
    return nested(0, data_, kIndent);
  }

  static constexpr size_t kIndent = 7;  // of "tensor("

 private:
  bool cut(int dim) const { return summarise_ && layout_.sizes[dim] > 2 * kEdge; }
  int64_t step(int dim) const { return layout_.strides[dim] * static_cast<int64_t>(info(layout_.dtype).bytes); }

  template <typename Visit>
  void visit_shown(int dim, const char* data, const Visit& visit) const {
    if (dim == layout_.rank) return visit(data);
    int64_t size = layout_.sizes[dim];
    for (int64_t i = 0; i < size; ++i) {
      if (cut(dim) && i == kEdge) i = size - kEdge;
      visit_shown(dim + 1, data + i * step(dim), visit);
    }
  }

  // The rule looks at what is shown; of floats, at the finite ones that are not zero.
  void choose_format() {
    format_.floating = info(layout_.dtype).kind == DTypeKind::kFloatingKind;
    if (!format_.floating) {
      visit_shown(0, data_, [&](const char* at) {
        format_.width = std::max(format_.width, element_text(format_, layout_.dtype, at).size());
      });
      return;
    }
    std::vector<double> values;
    visit_shown(0, data_, [&](const char* at) {
      double value = real_at(layout_.dtype, at);
      if (std::isfinite(value) && value != 0) values.push_back(value);
    });
    format_.width = 1;
    if (values.empty()) return;
    double low = std::fabs(values[0]), high = low;
    for (double value : values) {
      low = std::min(low, std::fabs(value));
      high = std::max(high, std::fabs(value));
      if (value != std::ceil(value)) format_.whole = false;
    }
    format_.scientific = high / low > 1000 || high > 1e8 || (!format_.whole && low < 1e-4);
    for (double value : values) format_.width = std::max(format_.width, real_text(format_, value).size());
  }

  std::string padded(const char* at) const {
    std::string text = element_text(format_, layout_.dtype, at);
    return text.size() < format_.width ? std::string(format_.width - text.size(), ' ') + text : text;
  }

  std::string nested(int dim, const char* data, size_t indent) const {
    if (dim == layout_.rank) return padded(data);
    bool innermost = dim + 1 == layout_.rank;
    std::vector<std::string> items;
    int64_t size = layout_.sizes[dim];
    for (int64_t i = 0; i < size; ++i) {
      if (cut(dim) && i == kEdge) {
        items.push_back(innermost ? " ..." : "...");
        i = size - kEdge;
      }
      items.push_back(nested(dim + 1, data + i * step(dim), indent + 1));
    }
    size_t per_line = 1;
    if (innermost) per_line = std::max<size_t>(1, (kLineWidth - std::min(indent, kLineWidth)) / (format_.width + 2));
    std::string gap = "," + std::string(innermost ? 1 : static_cast<size_t>(layout_.rank - dim - 1), '\n') +
                      std::string(indent + 1, ' ');
    std::string text = "[";
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text += i % per_line == 0 ? gap : ", ";
      text += items[i];
    }
    return text + "]";
  }

  const Layout& layout_;
  const char* data_;
  bool summarise_;
  Format format_;
};

}  // namespace

PyObject* tensor_repr(PyObject* self) {
  const TensorObject* tensor = as_tensor(self);
  const Layout& layout = *tensor->layout;
  if (tensor->buffer == nullptr) return PyUnicode_FromFormat("<tensor to come: %s>", to_text(layout).c_str());
  std::string body = Printer(tensor).print();
  std::vector<std::string> suffixes;
  if (layout.count == 0 && layout.rank != 1) {
    std::string sizes;
    for (int d = 0; d < layout.rank; ++d) sizes += (d > 0 ? ", " : "") + std::to_string(layout.sizes[d]);
    suffixes.push_back("size=(" + sizes + ")");
  }
  // An empty tensor does not show whether it holds ints.
  bool shown = layout.dtype == DType::k_float32 ||
               (layout.count > 0 && (layout.dtype == DType::k_int64 || layout.dtype == DType::k_bool));
  if (!shown) suffixes.push_back(std::string("dtype=kintsugi.") + info(layout.dtype).name);

  if ((layout.gradients & kRequiresGrad) != 0) suffixes.push_back("requires_grad=True");

  std::string text = "tensor(" + body;
  size_t newline = text.rfind('\n');
  size_t line = newline == std::string::npos ? text.size() + 2 : text.size() - newline + 1;
  for (const std::string& suffix : suffixes) {
    if (line + suffix.size() + 2 > kLineWidth) {
      text += ",\n" + std::string(Printer::kIndent, ' ') + suffix;
      line = Printer::kIndent + suffix.size();
    } else {
      text += ", " + suffix;
      line += suffix.size() + 2;
    }
  }
  text += ")";
  if ((layout.gradients & kParameter) != 0) text.insert(0, "Parameter containing:\n");
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

}  // namespace kintsugi
