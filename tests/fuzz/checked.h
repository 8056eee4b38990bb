// The check that ends a fuzzer which has found a bug.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace fastload::testing {

inline void Expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "Found: %s\n", what.c_str());
  std::abort();
}

}  // namespace fastload::testing
