// What most files include of the standard library, parsed once a library when it is built (meson's cpp_pch; off with
// -Db_pch=false). Files still include what they use.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>
