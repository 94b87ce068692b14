"use strict";
// Evaluates a policy of plain layers that `rlzoo export --to json` wrote.
//
//   const action = act(policy, observation);   // an array, or an object of arrays by name
//
// Discrete actions are numbers, all others arrays.

const LAYERS = {
  linear: (layer, x) =>
    layer.weight.map((row, i) => {
      let sum = layer.bias ? layer.bias[i] : 0;
      for (let j = 0; j < x.length; j++) sum += row[j] * x[j];
      return sum;
    }),
  scale: (layer, x) => x.map((value, i) => value * layer.factor[i] + layer.shift[i]),
  layer_norm: (layer, x) => {
    const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
    const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
    return x.map((value, i) => ((value - mean) / Math.sqrt(variance + layer.eps)) * layer.weight[i] + layer.bias[i]);
  },
  tanh: (layer, x) => x.map(Math.tanh),
  relu: (layer, x) => x.map((value) => Math.max(value, 0)),
  sigmoid: (layer, x) => x.map((value) => 1 / (1 + Math.exp(-value))),
  silu: (layer, x) => x.map((value) => value / (1 + Math.exp(-value))),
  softplus: (layer, x) => x.map((value) => Math.max(value, 0) + Math.log1p(Math.exp(-Math.abs(value)))),
  elu: (layer, x) => x.map((value) => (value > 0 ? value : layer.alpha * Math.expm1(value))),
  leaky_relu: (layer, x) => x.map((value) => (value > 0 ? value : layer.negative_slope * value)),
  clip: (layer, x) => x.map((value) => clip(value, layer.low, layer.high)),
};

// A bound that is null is none.
function clip(value, low, high) {
  if (low !== null && value < low) return low;
  return high !== null && value > high ? high : value;
}

// One input as the network takes it: scaled as VecNormalize does, or one-hot.
function features(input, values) {
  const flat = Array.isArray(values) ? values.flat(Infinity) : [values];
  if (input.one_hot) {
    return flat.flatMap((value, i) =>
      Array.from({ length: input.one_hot.n[i] }, (_, k) => (k === value - input.one_hot.start[i] ? 1 : 0)));
  }
  if (!input.scaling) return flat.map(Number);
  const { mean, std, clip: bound, missing } = input.scaling;
  return flat.map((value, i) => {
    if (missing !== null && value === missing) return 0;
    return clip((value - mean[i]) / std[i], bound === null ? null : -bound, bound);
  });
}

function act(policy, observation, masks = null) {
  const single = policy.inputs.length === 1 && (typeof observation === "number" || Array.isArray(observation));
  let x = policy.inputs.flatMap((input) => features(input, single ? observation : observation[input.name]));
  for (const layer of policy.layers) x = LAYERS[layer.type](layer, x);
  const output = policy.output;
  if (output.type === "box") {
    return x.map((value, i) => {
      const low = output.low[i], high = output.high[i];
      return clip(output.rescaled ? low + 0.5 * (value + 1) * (high - low) : value, low, high);
    });
  }
  if (output.type === "binary") return x.map((value) => (value > 0 ? 1 : 0));
  if (masks) x = x.map((value, i) => (masks[i] ? value : -1e8));
  let first = 0;
  const choices = output.n.map((n, i) => {
    const scores = x.slice(first, first + n);
    first += n;
    return scores.indexOf(Math.max(...scores)) + output.start[i];
  });
  return policy.metadata.action_space.type === "Discrete" ? choices[0] : choices;
}
