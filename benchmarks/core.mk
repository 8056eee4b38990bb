# What links a folder's program with the objects of the core in place, as it is compiled for use.
# Asks for HERE, the folder; makes BINARY.

PYTHON ?= python3

CCACHE := $(if $(findstring ccache,$(CXX)),,$(shell command -v ccache))
PYARROW := $(shell $(PYTHON) -c 'import pyarrow; print(pyarrow.get_library_dirs()[0])')
SOVERSION := $(shell $(PYTHON) -c 'import pyarrow; v = pyarrow.cpp_version_info; print("%d%02d" % (v.major, v.minor))')
# Where setup.py has them.
OBJECTS := $(shell $(PYTHON) -c 'import sys, sysconfig, pyarrow, pybind11; print("build/temp.%s-%s/pyarrow-%s-pybind11-%s" % \
    (sysconfig.get_platform(), sys.implementation.cache_tag, pyarrow.__version__, pybind11.__version__))')
BUILD := build/$(notdir $(HERE))/$(SOVERSION)

CORE := $(patsubst %/,$(OBJECTS)/build/units/%/unit.o,$(sort $(dir $(shell find csrc/fastload -name '*.cc'))))
PROGRAM := $(patsubst %.cc,$(BUILD)/%.o,$(sort $(wildcard $(HERE)/*.cc)))
BINARY := $(BUILD)/$(notdir $(HERE))

CPPFLAGS := -Icsrc -Itests/cpp -isystem $(PYARROW)/include
CXXFLAGS := -std=c++20 -O1 -Wall -Wextra -Werror -Wno-missing-field-initializers
LDFLAGS := -L$(PYARROW) -Wl,-rpath,$(PYARROW)
LDLIBS := -l:libarrow.so.$(SOVERSION) -l:libparquet.so.$(SOVERSION) -pthread

.DELETE_ON_ERROR:

$(BUILD)/%.o: %.cc $(HERE)/Makefile benchmarks/core.mk
	@mkdir -p $(@D)
	@echo 'CXX $<'
	@$(CCACHE) $(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c $< -o $@

$(BINARY): $(PROGRAM) $(CORE)
	@echo 'LINK $@'
	@$(CXX) $(LDFLAGS) $^ $(LDLIBS) -o $@

-include $(PROGRAM:.o=.d)
