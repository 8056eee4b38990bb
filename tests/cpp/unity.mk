# Names the objects of a tree of sources: one for each file, or with UNITY=true one for each folder,
# whose unity.cc includes all sources of the folder. Asks for BUILD and UNITY.

sources = $(sort $(shell find $(1) -name '*.cc'))
folders = $(patsubst %/,%,$(sort $(dir $(call sources,$(1)))))
ifeq ($(UNITY),true)
objects = $(patsubst %,$(BUILD)/%/unity.o,$(call folders,$(1)))
else
objects = $(patsubst %.cc,$(BUILD)/%.o,$(call sources,$(1)))
endif

# Written anew only when the folder has other sources, so that nothing else is compiled again.
.PRECIOUS: $(BUILD)/%/unity.cc
$(BUILD)/%/unity.cc: always
	@mkdir -p $(@D)
	@for source in $(sort $(wildcard $*/*.cc)); do echo "#include \"$$source\""; done > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

.PHONY: always
always:
