// What ends a fuzzer that has found something.
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
