#include <dlfcn.h>

#include <exception>
#include <string_view>

#include "bindings/bindings.h"
#include "pybind11/pybind11.h"

namespace {

// Refuses a core with a C++ runtime of its own: an exception of Arrow's libraries would
// crash the process, because the core and Arrow would have different types for it.
void CheckRuntime() {
  Dl_info runtime;
  Dl_info core;
  const bool found =
      dladdr(reinterpret_cast<const void*>(&std::terminate), &runtime) != 0 &&
      dladdr(reinterpret_cast<const void*>(&CheckRuntime), &core) != 0;
  if (!found || std::string_view(runtime.dli_fname) != core.dli_fname) return;
  throw pybind11::import_error(
      "Expected a core that shares the C++ runtime of pyarrow, got one with a runtime of "
      "its own: the compiler links with -static-libstdc++. Build fastload with another "
      "compiler, such as CC=gcc CXX=g++");
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  CheckRuntime();
  m.doc() = "The compiled core of fastload: reads, decodes and collates Parquet.";
  fastload::RegisterFooter(m);
  fastload::RegisterColumns(m);
  fastload::RegisterReadPlan(m);
  fastload::RegisterScan(m);
  fastload::RegisterSharedBatches(m);
  fastload::RegisterHash(m);
  fastload::RegisterFilterExpression(m);
  fastload::RegisterRangeCache(m);
  fastload::RegisterRemoteQueue(m);
  fastload::RegisterRowFinder(m);
  fastload::RegisterPipeline(m);
  fastload::RegisterRoof(m);
}
