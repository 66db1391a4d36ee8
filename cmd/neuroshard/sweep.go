package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/internal/journal"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/sweep"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/step"
)

func newSweepCommand(a *app) *cobra.Command {
	s := sweepCommand{app: a}
	cmd := &cobra.Command{
		Use:   "sweep TABLES",
		Short: "Plan for many clusters, and show which is fastest, which cheapest, and what binds",
		Long: `Plan for many clusters, and show which is fastest, which cheapest, and what binds.

Each flag of an axis takes several values, separated by commas, and every combination
of the values is a cell: a real plan. Other flags are those of plan. Cells are planned
on all cores. Cells that do not fit stay in the table, with the reason.

With --output FILE, outcomes are kept in FILE.partial as they come. After Ctrl-C, the
same command goes on from there. --part 2/8 plans one of eight parts, for another
machine or job each, and sweep join puts the files of the parts together.`,
		Example: `  neuroshard sweep workload:mlperf-dlrm-dcnv2 --gpus 4,8,16,32 --set devices_per_host=8 --gpu a100-80,h100-80,h200
  neuroshard sweep tables.json --gpus 8,16 --gpu h100-80 --set batch_per_device=4096,8192 --prices catalog.csv
  neuroshard sweep tables.json --gpus 8,16 --gpu h100-80 --set scale=none --set scale=rows=2,tables=1.5 --by cost --prices 2.95
  neuroshard sweep tables.json --gpus 8,16,32,64 --gpu h100-80 --part 2/8 -o part2.jsonl`,
		Args:              exactArgs("TABLES"),
		ValidArgsFunction: completeTables(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args[0]) },
	}
	s.register(cmd)
	cmd.AddCommand(newSweepJoinCommand(a))
	return cmd
}

func newSweepJoinCommand(a *app) *cobra.Command {
	j := sweepOutput{app: a}
	cmd := &cobra.Command{
		Use:   "join FILES",
		Short: "Join the parts of a sweep, or show the file of a whole one",
		Long: `Join the parts of a sweep, or show the file of a whole one.

FILES are what sweep wrote with --part 1/n to n/n and --output. A part that is missing,
that is there twice, that has cells missing, or that is of another sweep is an error.
The joined file (--output) is, byte for byte, what one run of the whole sweep writes.`,
		Example: `  neuroshard sweep join part*.jsonl -o sweep.jsonl --plot sweep.svg
  neuroshard sweep join sweep.jsonl --by cost`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exactArgs("FILES")(cmd, args)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return j.join(args) },
	}
	j.register(cmd)
	return cmd
}

// sweepOutput is what sweep and sweep join do with outcomes.
type sweepOutput struct {
	*app
	output, csv, plot, by string
	json                  bool
}

func (s *sweepOutput) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.by, "by", "", "list the cells by `speed` or by cost (default: in the order of the axes)")
	f.StringVarP(&s.output, "output", "o", "", "`file` of the outcomes, which sweep join reads; a sweep that was stopped goes on")
	f.BoolVar(&s.json, "json", false, "print one JSON object")
	f.StringVar(&s.csv, "csv", "", "`file` to write the table to, as CSV; - prints it in place of the report")
	f.StringVar(&s.plot, "plot", "", "`file` to draw the samples a second and the prices to, as SVG")
	complete(cmd, "by", func() []string { return []string{string(sweep.BySpeed), string(sweep.ByCost)} })
}

// check reports outputs that cannot be written, or that are inputs.
func (s *sweepOutput) check(inputs ...string) error {
	var f faults
	f.add(s.by != "" && s.by != string(sweep.BySpeed) && s.by != string(sweep.ByCost), "", "--by: %q is neither speed nor cost", s.by)
	f.add(s.csv == standardOutput && s.json, "name a file for the CSV, or leave --json out", "--json and --csv - both go to standard output")
	files := []struct{ name, path string }{{"output", s.output}, {"plot", s.plot}, {"csv", s.csv}}
	for i, flag := range files {
		f.add(flag.path == standardOutput && flag.name != "csv", "name a file", "--%s: standard output is for the report", flag.name)
		for _, other := range files[:i] {
			same := !toStandardOutput(flag.path) && filepath.Clean(flag.path) == filepath.Clean(other.path)
			f.add(same, "name two files", "--%s and --%s name the same file %s", other.name, flag.name, flag.path)
		}
	}
	if err := f.err(); err != nil {
		return err
	}
	for _, path := range []string{s.output, s.csv, s.plot} {
		if err := checkWritable(path); err != nil {
			return err
		}
		if path == s.output {
			continue // a journal is checked when it is read
		}
		if err := s.overwrites(path, inputs...); err != nil {
			return err
		}
	}
	return nil
}

// print writes the results to where the flags say.
func (s *sweepOutput) print(file sweep.File) error {
	results := sweep.NewResults(file, sweep.By(s.by))
	if s.csv != "" {
		var text bytes.Buffer
		if err := sweep.WriteCSV(&text, results); err != nil {
			return err
		}
		if err := s.writeOut(s.csv, text.Bytes()); err != nil {
			return err
		}
	}
	if s.plot != "" {
		var text bytes.Buffer
		if err := sweep.Plot(&text, results); err != nil {
			return err
		}
		if err := writeFile(s.plot, text.Bytes()); err != nil {
			return err
		}
	}
	switch {
	case s.csv == standardOutput:
		return nil
	case s.json:
		return bad(s.printJSON(results), "")
	}
	return bad(report.Sweep(s.stdout, results, s.reportOptions()), "")
}

// join joins files, and prints the sweep.
func (s *sweepOutput) join(paths []string) error {
	if err := s.check(paths...); err != nil {
		return err
	}
	if err := s.overwrites(s.output, paths...); err != nil {
		return err
	}
	var names []string
	var files []*sweep.File
	var errs []error
	for _, path := range paths {
		name, r, err := s.openOr(path, "name the files that sweep wrote with --output")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		file, err := sweep.Read(name, r)
		_ = r.Close()
		if err != nil {
			errs = append(errs, faulty(err.Error(), "name the files that sweep wrote with --output"))
			continue
		}
		names, files = append(names, name), append(files, file)
	}
	if err := input.Join(errs...); err != nil {
		return err
	}
	all, err := sweep.Join(names, files)
	if err != nil {
		return bad(err, "give each part of one sweep once, and finished; --part I/N plans or continues a part")
	}
	if s.output != "" {
		if err := all.Save(s.output); err != nil {
			return bad(err, "choose a file that can be written")
		}
	}
	if err := s.print(*all); err != nil {
		return err
	}
	return noneFits(all.Outcomes)
}

// noneFits is the answer if no cell has a plan.
func noneFits(outcomes []sweep.Outcome) error {
	if slices.ContainsFunc(outcomes, func(o sweep.Outcome) bool { return o.Plan != nil }) {
		return nil
	}
	return &exitError{exitNo, errors.New("no cell has a plan"), "the report says of each cell what would help"}
}

type sweepCommand struct {
	*app
	sweepOutput
	cluster clusterFlags
	set     *pflag.FlagSet

	devices, hosts, perHost, batch, perDevice          []int
	profiles, precisions, exchanges, shardings, engine []string
	scales                                             []string
	prices, model                                      string
	spot                                               bool
	part                                               partFlag
	workers                                            int
	seed                                               uint64
	evaluations                                        int64
}

// axisFlags are the cluster flags that take several values here, and price, which --prices
// replaces.
var axisFlags = []string{"gpus", "gpu", "hosts", "devices_per_host", "batch", "comm_precision", "engine", "price"}

// replicaFlags are the cluster flags of sharding groups, which a sweep does not vary.
var replicaFlags = []string{"replicas", "sync_every", "inter_host_allreduce"}

func (s *sweepCommand) register(cmd *cobra.Command) {
	s.sweepOutput.app = s.app
	// The cluster flags of one value are registered elsewhere, and all but the axes taken over.
	single := &cobra.Command{}
	s.cluster.register(single)
	s.cluster.step.register(single, &s.cluster)
	single.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(axisFlags, f.Name) && !slices.Contains(replicaFlags, f.Name) {
			cmd.Flags().AddFlag(f)
		}
	})
	f := cmd.Flags()
	s.set = f
	f.IntSliceVar(&s.devices, "gpus", nil, "axis: `numbers` of devices")
	f.StringSliceVar(&s.profiles, "gpu", nil, "axis: device `profiles`; list them with: neuroshard list devices")
	f.IntSliceVar(&s.hosts, "hosts", nil, "axis: `numbers` of hosts, in place of --gpus")
	f.IntSliceVar(&s.perHost, "devices-per-host", nil, "axis: `numbers` of devices that share a host's fast links (default: as in plan)")
	f.IntSliceVar(&s.batch, "batch", nil, "axis: global `batches` in samples, for strong scaling (default: the tables' own)")
	f.IntSliceVar(&s.perDevice, "batch-per-device", nil, "axis: `batches` of one device, for weak scaling: the global batch is this times the devices")
	f.StringSliceVar(&s.precisions, "precision", nil, "axis: number `formats` of the weights of all tables: fp32, fp16, bf16 (default: the tables' own)")
	f.StringSliceVar(&s.exchanges, "comm-precision", nil, "axis: number `formats` of the vectors that devices send each other: fp32, fp16, bf16")
	f.StringSliceVar(&s.shardings, "types", nil, "axis: `lists` of sharding types, each list joined by +, such as all,table_wise+column_wise")
	f.StringSliceVar(&s.engine, "engine", nil, "axis: `engines` that are to run the plan: torchrec, hugectr or any")
	f.StringArrayVar(&s.scales, "scale", nil, "axis: a `scale` of the tables, such as rows=2,dims=1.5,pooling=1.2,tables=1.25, or none; may be repeated")
	f.StringVar(&s.prices, "prices", "", "`price` of one device for an hour, such as 2.95, or a CSV file in the columns of skypilot's catalog")
	f.BoolVar(&s.spot, "spot", false, "take the prices of spot instances from the file of --prices")
	f.StringVar(&s.model, "model", "", modelUsage+" (default: the models that ship for the profiles)")
	f.Uint64Var(&s.seed, "seed", 0, "seed of the random numbers in the searches")
	f.Int64Var(&s.evaluations, "max-evaluations", 0, "cost estimates after which the search of a cell ends; 0 takes a number that grows with the problem")
	f.IntVar(&s.workers, "threads", 0, "cells planned at a time; they do not change the outcomes (default: all cores)")
	f.Var(&s.part, "part", "plan part `i/n` of the cells; needs --output")
	s.sweepOutput.register(cmd)
	completeList(cmd, "gpu", hardware.Names)
	completeList(cmd, "precision", problem.Precisions)
	completeList(cmd, "comm-precision", problem.Precisions)
	completeList(cmd, "engine", func() []string { return append(problem.Engines(), "any") })
	completeModel(cmd)
}

// partFlag is a flag's value of the form i/n, for a part.
type partFlag struct{ shardFlag }

func (p *partFlag) Set(text string) error {
	if p.shardFlag.Set(text) != nil {
		return fmt.Errorf("part %q is not of the form 2/8, from 1/8 to 8/8", text)
	}
	return nil
}

func (s *sweepCommand) run(ctx context.Context, source string) error {
	def, err := s.definition(source)
	if err := input.Join(s.checkFlags(), err); err != nil {
		return err
	}
	if err := s.check(source, s.cluster.topology, s.model, s.prices, s.cluster.step.with); err != nil {
		return err
	}
	sw, err := sweep.New(def)
	if err != nil {
		return stepError(err)
	}
	part := sweep.Part{Index: s.part.Index, Count: s.part.Count}
	if part.Count > sw.Cells() {
		return usagef("give it to fewer parts", "--part: the sweep has %d cells, which are fewer than %d parts", sw.Cells(), part.Count)
	}
	head := sw.Head(part)
	options := sweep.Options{Part: part, Workers: s.workers, Explain: s.why}
	bar := s.newProgressBar()
	defer bar.clear()
	options.OnOutcome = func(_ sweep.Outcome, done, of int) error {
		bar.at(done, of, "planning")
		return nil
	}
	var outcomes []sweep.Outcome
	if s.output == "" {
		outcomes, err = sw.Run(ctx, options)
	} else {
		outcomes, err = sw.Keep(ctx, s.output, options)
	}
	bar.clear()
	interrupted := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if err != nil && (!interrupted || len(outcomes) == 0) {
		return ofFile(err)
	}
	if err := s.print(sweep.File{Head: head, Outcomes: outcomes}); err != nil {
		return err
	}
	if interrupted {
		return s.interrupted(len(outcomes), sw.Cells())
	}
	if part.Count > 1 {
		return nil // a part says nothing of the sweep
	}
	return noneFits(outcomes)
}

// ofFile marks the error of a file of outcomes, or of what a stopped run kept, as one of the user's.
func ofFile(err error) error {
	var path *fs.PathError
	var refused *journal.Refused
	var other *sweep.NotSweep
	if errors.As(err, &path) || errors.As(err, &refused) || errors.As(err, &other) {
		return bad(err, "name another file, or remove this one")
	}
	return err
}

func (s *sweepCommand) interrupted(done, of int) error {
	if s.output == "" {
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: %d of %d cells are planned", done, of), "with --output the same command goes on from there"}
	}
	return &exitError{exitInterrupted, fmt.Errorf("interrupted: %d of %d cells are in %s.partial", done, of, s.output), "give the same command again to continue"}
}

// why returns the message of the error of a cell, and its hint, as the command plan prints them.
func (s *sweepCommand) why(err error) (reason, remedy string) {
	complaints, _ := s.explain(stepError(err))
	var messages []string
	for _, c := range complaints {
		messages = append(messages, c.message)
		if remedy == "" {
			remedy = c.hint
		}
	}
	return strings.Join(messages, "; "), remedy
}

// checkFlags reports flags that are out of range, or do not go together.
func (s *sweepCommand) checkFlags() error {
	var f faults
	f.add(s.workers < 0, "leave the flag out for the default", "threads: %d is below 0", s.workers)
	f.add(s.evaluations < 0, "leave the flag out for the default", "max_evaluations: %d is below 0", s.evaluations)
	f.add(s.part.Count > 0 && s.output == "", "name a file for the part, and join the files with: neuroshard sweep join FILES", "--part needs --output")
	f.add(s.spot && s.prices == "", "name a file with the prices of spot instances", "spot needs --prices FILE")
	f.add(s.by == string(sweep.ByCost) && s.prices == "" && s.cluster.topology == "", "add --prices with a price of one device for an hour, or a file", "--by cost needs prices")
	measured := s.set.Changed("step")
	if measured && !s.set.Changed("step-plan") {
		f = append(f, measuredOf())
	}
	f.add(s.cluster.step.with == standardOutput, "name a file", "step_plan: a sweep reads the plan for each cell, and standard input only once")
	f.add(measured && (len(s.scales) > 0 || len(s.precisions) > 0), "leave one of them out", "step contradicts scale and precision: the measured step is one of the tables as they are")
	return f.err()
}

// measuredOf is the error of a measured step without its plan: in plan it is one of the plan
// found, but cells have different plans.
func measuredOf() error {
	return faulty("a sweep needs the plan that the measured step belongs to", "name the plan with step_plan")
}

// definition reads what the flags and the files state.
func (s *sweepCommand) definition(source string) (sweep.Definition, error) {
	def := sweep.Definition{Name: source, Seed: s.seed, MaxEvaluations: s.evaluations}
	if source == "-" {
		def.Name = "standard input"
	}
	var errs []error
	var model *cost.Model
	if formulasOf(s.model) == nil {
		var err error
		// An error ends here: the model could supply what seems to be missing.
		if model, err = s.givenModel(s.model); err != nil {
			return def, err
		}
		s.cluster.setModel(model)
	}
	all := shardingTypesFlag(problem.ShardingTypes())
	def.Types, def.Prices = typesOf(&all), formulasOf(s.model)
	if model != nil {
		def.Prices = neuroshard.Trained(model, 0)
		if model.Manifest().Source != string(dataset.Simulated) {
			columns := shardingTypesFlag{problem.TableWise, problem.ColumnWise} // no backend measures the others
			def.Types = typesOf(&columns)
		}
	}
	axes, err := s.axes()
	def.Axes = axes
	errs = append(errs, err)
	parts := &def.Parts
	s.cluster.states(s.app, parts)
	parts.Tables, parts.Workload, parts.TablesErr = readTables(s.app, source, &s.cluster)
	if s.cluster.topology != "" {
		file, err := readTopology(s.app, &s.cluster)
		parts.Topology, parts.TopologyErr = &file, err
		if file.Has("replicas") {
			errs = append(errs, faulty("replicas: a sweep plans for one sharding group", "leave replicas out of the topology file, or plan each number with: neuroshard plan --set replicas"))
		}
	}
	def.Complete = func(p *problem.Problem, in *step.Input) error {
		if err := s.cluster.step.measuredWith(s.app, &s.cluster, p, in); err != nil {
			return err
		}
		if in != nil && in.Measured.Step > 0 && in.Measured.Shards == nil {
			return measuredOf()
		}
		return nil
	}
	if s.prices != "" {
		def.Tariff, err = s.tariff()
		errs = append(errs, err)
	}
	return def, input.Join(errs...)
}

// tariff reads --prices.
func (s *sweepCommand) tariff() (*sweep.Tariff, error) {
	flat, isNumber, err := sweep.ParseFlat(s.prices)
	switch {
	case isNumber && err == nil && s.spot:
		return nil, faulty("spot: --prices states one price for all devices", "leave spot out, or name a file with the prices of spot instances")
	case isNumber && err != nil:
		return nil, faulty("--prices: "+err.Error(), "write the price of one device for an hour, such as 2.95")
	case isNumber:
		return flat, nil
	}
	name, r, err := s.openOr(s.prices, "write the price of one device for an hour, such as 2.95, or name a CSV file in the columns of skypilot's catalog")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return sweep.ReadCatalog(name, r, s.spot)
}

// axes returns the axes that the flags state.
func (s *sweepCommand) axes() (sweep.Axes, error) {
	axes := sweep.Axes{Counts: s.devices, Hosts: s.perHost, Batches: s.batch, PerDevice: s.perDevice, Devices: s.profiles}
	var errs []error
	if len(s.hosts) > 0 && len(s.perHost) < 2 && len(s.devices) == 0 {
		perHost := hardware.UsualPerHost
		switch {
		case len(s.perHost) == 1:
			perHost = s.perHost[0]
		case len(s.profiles) == 1:
			named, _ := hardware.ByName(s.profiles[0]) // the sweep reports an unknown name
			perHost = named.FullHost()
		}
		axes.Hosts = []int{perHost}
		for _, n := range s.hosts {
			axes.Counts = append(axes.Counts, n*perHost)
		}
	} else if len(s.hosts) > 0 {
		errs = append(errs, faulty("--hosts contradicts --gpus, and several devices_per_host", "state --hosts or --gpus"))
	}
	axes.Scales = axisOf("scale", s.scales, sweep.ParseScale, &errs)
	axes.Precisions = axisOf("precision", s.precisions, problem.ParsePrecision, &errs)
	axes.CommPrecisions = axisOf("comm_precision", s.exchanges, problem.ParsePrecision, &errs)
	axes.Engines = axisOf("--engine", s.engine, func(name string) (problem.Engine, error) {
		if name == "any" {
			return "", nil
		}
		return problem.ParseEngine(name)
	}, &errs)
	axes.ShardingTypes = axisOf("--types", s.shardings, func(list string) (sweep.Types, error) {
		var types shardingTypesFlag
		if err := types.Set(strings.ReplaceAll(list, "+", ",")); err != nil {
			return sweep.Types{}, err
		}
		return typesOf(&types), nil
	}, &errs)
	return axes, input.Join(errs...)
}

// typesOf returns a list of sharding types as a value of an axis.
func typesOf(types *shardingTypesFlag) sweep.Types {
	return sweep.Types{Name: strings.ReplaceAll(types.String(), ",", "+"), Allowed: types.options()}
}

// axisOf parses the values of an axis.
func axisOf[T any](flag string, texts []string, parse func(string) (T, error), errs *[]error) []T {
	var all []T
	for _, text := range texts {
		value, err := parse(strings.TrimSpace(text))
		if err != nil {
			*errs = append(*errs, faulty(fmt.Sprintf("%s: %v", flag, err), ""))
			continue
		}
		all = append(all, value)
	}
	return all
}
