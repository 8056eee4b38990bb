#include "bindings/bindings.h"

PYBIND11_MODULE(_core, m) {
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
  fastload::RegisterDecoded(m);
  fastload::RegisterPipeline(m);
  fastload::RegisterRoof(m);
}
