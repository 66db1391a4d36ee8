package report

import (
	"errors"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/search"
)

// Remedy says what to change if an error says that a problem has no plan; it is empty for other
// errors. It names what to change as the command's flags do.
func Remedy(err error) string {
	var infeasible *search.Infeasible
	var unmovable *replan.Unmovable
	var noType *search.NoShardingType
	var idle *search.Idle
	switch {
	case errors.As(err, &infeasible):
		return infeasibleHint(infeasible)
	case errors.As(err, &unmovable):
		return unmovable.Hint
	case errors.As(err, &noType):
		return noTypeHint(noType)
	case errors.As(err, &idle):
		return idleHint(idle)
	}
	return ""
}

// noTypeHint advises on tables that no allowed sharding type places.
func noTypeHint(e *search.NoShardingType) string {
	switch {
	case len(e.NotSearched) > 0:
		return "leave it out of --types"
	case e.OutsideHBM:
		return "add hbm to their tiers, or plan with method neuroshard and a model that estimates host memory"
	case e.NoSlices:
		return "allow table_wise and column_wise as well, with --types, or add hbm to their tiers"
	}
	return "allow table_wise and column_wise as well, with --types; a table with sharding_types of its own needs them there, too"
}

// idleHint advises on tables that leave devices empty.
func idleHint(e *search.Idle) string {
	if len(e.Barred) > 0 {
		return "allow some table to use these devices, or plan for another engine"
	}
	devices := "1 device"
	if used := e.Devices - e.Empty; used > 1 {
		devices = fmt.Sprintf("%d devices or fewer", used)
	}
	return "plan for " + devices + ", or for another engine"
}

func infeasibleHint(e *search.Infeasible) string {
	if e.OneHost {
		return "leave the table's one_host out, allow the table to be cut by rows (sharding_types), or plan for devices with more memory or hosts with more devices"
	}
	if e.Missing == 0 {
		return fmt.Sprintf("memory is not the limit, but the method's cap on columns: try --set method=%s, which also works without a cap", search.Default)
	}
	hint := "try "
	if e.Method != search.Default {
		hint += fmt.Sprintf("--set method=%s, which splits further, ", search.Default)
	}
	if e.DevicesNeeded > 0 && e.Method == search.Default {
		hint += fmt.Sprintf("--gpus %d, ", e.DevicesNeeded*max(1, e.Replicas))
	}
	if e.Replicas > 1 {
		hint += fmt.Sprintf("fewer sharding groups (replicas below %d), ", e.Replicas)
	}
	if e.Method == search.Default && !e.OnlyHBM && !slices.Contains(e.Tried, search.InHostMemory) {
		hint += "host memory for cold tables (--host-memory), "
	}
	if e.OtherTypes {
		hint += "other sharding types (--types all), "
	}
	return hint + "devices with more memory, or tables with a smaller optimizer state or precision"
}
