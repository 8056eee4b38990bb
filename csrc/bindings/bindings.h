// One registration function for each group of native classes; module.cc calls all of
// them.
#pragma once

#include "pybind11/pybind11.h"

namespace fastload {

void RegisterColumns(pybind11::module_& m);
void RegisterFilterExpression(pybind11::module_& m);
void RegisterFooter(pybind11::module_& m);
void RegisterHash(pybind11::module_& m);
void RegisterPipeline(pybind11::module_& m);
void RegisterRangeCache(pybind11::module_& m);
void RegisterReadPlan(pybind11::module_& m);
void RegisterRemoteQueue(pybind11::module_& m);
void RegisterRoof(pybind11::module_& m);
void RegisterRowFinder(pybind11::module_& m);
void RegisterScan(pybind11::module_& m);
void RegisterSharedBatches(pybind11::module_& m);

}  // namespace fastload
