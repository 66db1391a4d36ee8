package autoshard

import "math"

// V-trace (Espeholt et al., IMPALA, ICML 2018, section 4.1) corrects returns for the
// lag between the weights that acted and the weights that learn. With rho the ratio of
// the two probabilities of an action, clipped, and c the same ratio clipped at 1, going
// backward through a sequence:
//
//	delta_t = rho_t (r_t + gamma_t V_t+1 - V_t)
//	vs_t    = V_t + delta_t + gamma_t c_t (vs_t+1 - V_t+1)
//	pg_t    = rho_t (r_t + gamma_t vs_t+1 - V_t)
//
// vs are the targets of the expected returns, and pg the advantages of the actions.

// Trace is a batch of sequences as V-trace sees them: index step x Sequences +
// sequence.
type Trace struct {
	Sequences int
	LogRhos   []float64 // log of the learner's probability of an action over the actor's
	Rewards   []float64
	Discounts []float64 // gamma: 0 after the last step of an episode
	Values    []float64 // V: the learner's expected returns
	Bootstrap []float64 // V after the last step, for each sequence

	ClipRho, ClipPG float64 // the clips of rho in delta and in pg; 0 means no clip
}

// Targets returns the targets of the expected returns and the advantages of the
// actions. Both have the layout of Values.
func (t *Trace) Targets() (vs, advantages []float64) {
	n, count := len(t.Values), t.Sequences
	vs, advantages = make([]float64, n), make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		next, nextTarget := t.Bootstrap[i%count], t.Bootstrap[i%count]
		if i+count < n {
			next, nextTarget = t.Values[i+count], vs[i+count]
		}
		rho := math.Exp(t.LogRhos[i])
		delta := clipped(rho, t.ClipRho) * (t.Rewards[i] + t.Discounts[i]*next - t.Values[i])
		vs[i] = t.Values[i] + delta + t.Discounts[i]*min(1, rho)*(nextTarget-next)
		advantages[i] = clipped(rho, t.ClipPG) * (t.Rewards[i] + t.Discounts[i]*nextTarget - t.Values[i])
	}
	return vs, advantages
}

func clipped(rho, clip float64) float64 {
	if clip == 0 {
		return rho
	}
	return min(rho, clip)
}
