"use strict";
// The classic control tasks with the equations, constants and limits of Gymnasium.
//
// Each has `reset(random) -> state`, `step(state, action) -> {state, reward, terminated}`,
// `observe(state) -> observation` and `draw(pen, state, action)`; `fps` are the steps in a second of a video.

const bounded = (value, low, high) => Math.min(Math.max(value, low), high);
const between = (random, low, high) => low + (high - low) * random();
const single = (values) => values.map(Math.fround); // observations are of single precision

// Barto, Sutton and Anderson (1983); https://coneural.org/florian/papers/05_cart_pole.pdf, without friction.
const cartPole = {
  fps: 50,
  reset: (random) => Array.from({ length: 4 }, () => between(random, -0.05, 0.05)),
  step([x, speed, angle, rotation], action) {
    const gravity = 9.8, poleMass = 0.1, totalMass = 1.1, halfLength = 0.5, tau = 0.02;
    const force = action === 1 ? 10 : -10;
    const cos = Math.cos(angle), sin = Math.sin(angle);
    const push = (force + poleMass * halfLength * rotation * rotation * sin) / totalMass;
    const turning = (gravity * sin - cos * push) / (halfLength * (4 / 3 - (poleMass * cos * cos) / totalMass));
    const pulling = push - (poleMass * halfLength * turning * cos) / totalMass;
    const state = [x + tau * speed, speed + tau * pulling, angle + tau * rotation, rotation + tau * turning];
    const terminated = Math.abs(state[0]) > 2.4 || Math.abs(state[2]) > (12 * 2 * Math.PI) / 360;
    return { state, reward: 1, terminated };
  },
  observe: single,
  draw(pen, [x, , angle]) {
    const at = 300 + x * 125;
    pen.line([[0, 300], [600, 300]], "#9aa4b0", 2);
    pen.box(at - 26, 284, 52, 32, "#2b3a4a");
    pen.line([[at, 286], [at + 125 * Math.sin(angle), 286 - 125 * Math.cos(angle)]], "#d9731a", 10);
    pen.dot(at, 286, 5, "#ffffff");
  },
};

const pendulum = {
  fps: 30,
  reset: (random) => [between(random, -Math.PI, Math.PI), between(random, -1, 1)],
  step([angle, rotation], action) {
    const gravity = 10, dt = 0.05;
    const torque = bounded(action[0], -2, 2);
    const turn = 2 * Math.PI;
    const upright = ((((angle + Math.PI) % turn) + turn) % turn) - Math.PI;
    const cost = upright ** 2 + 0.1 * rotation ** 2 + 0.001 * torque ** 2;
    const faster = bounded(rotation + (1.5 * gravity * Math.sin(angle) + 3 * torque) * dt, -8, 8);
    return { state: [angle + faster * dt, faster], reward: -cost, terminated: false };
  },
  observe: ([angle, rotation]) => single([Math.cos(angle), Math.sin(angle), rotation]),
  draw(pen, [angle], action) {
    const tip = [300 - 130 * Math.sin(angle), 200 - 130 * Math.cos(angle)];
    pen.line([[300, 200], tip], "#c8553d", 24);
    pen.dot(300, 200, 6, "#1d2530");
    if (action) pen.arc(300, 200, 42, -Math.PI / 2, -Math.PI / 2 - bounded(action[0], -2, 2), "#2f6db5");
  },
};

const hill = (position) => [((position + 1.2) / 1.8) * 600, 360 - (Math.sin(3 * position) * 0.45 + 0.55) * 300];

function drawCar(pen, position, goal) {
  pen.line(Array.from({ length: 101 }, (_, i) => hill(-1.2 + (i * 1.8) / 100)), "#9aa4b0", 3);
  const [flagX, flagY] = hill(goal);
  pen.line([[flagX, flagY], [flagX, flagY - 55]], "#1d2530", 2);
  pen.polygon([[flagX, flagY - 55], [flagX + 26, flagY - 47], [flagX, flagY - 39]], "#e3b505");
  const slope = Math.atan2(0.45 * 3 * Math.cos(3 * position) * 300, 600 / 1.8);
  const [x, y] = hill(position), cos = Math.cos(slope), sin = Math.sin(slope);
  const place = (along, up) => [x + along * cos - up * sin, y - along * sin - up * cos];
  pen.polygon([place(-20, 8), place(-20, 26), place(20, 26), place(20, 8)], "#2b3a4a");
  for (const along of [-11, 11]) pen.dot(...place(along, 8), 8, "#7a8592");
}

// Moore (1990).
const mountainCar = {
  fps: 30,
  reset: (random) => [between(random, -0.6, -0.4), 0],
  step([position, speed], action) {
    let faster = bounded(speed + (action - 1) * 0.001 - Math.cos(3 * position) * 0.0025, -0.07, 0.07);
    const moved = bounded(position + faster, -1.2, 0.6);
    if (moved === -1.2 && faster < 0) faster = 0;
    return { state: [moved, faster], reward: -1, terminated: moved >= 0.5 && faster >= 0 };
  },
  observe: single,
  draw: (pen, [position]) => drawCar(pen, position, 0.5),
};

const mountainCarContinuous = {
  fps: 30,
  reset: mountainCar.reset,
  step([position, speed], action) {
    const force = bounded(action[0], -1, 1);
    let faster = bounded(speed + force * 0.0015 - 0.0025 * Math.cos(3 * position), -0.07, 0.07);
    const moved = bounded(position + faster, -1.2, 0.6);
    if (moved === -1.2 && faster < 0) faster = 0;
    const terminated = moved >= 0.45 && faster >= 0;
    return { state: single([moved, faster]), reward: (terminated ? 100 : 0) - 0.1 * action[0] ** 2, terminated };
  },
  observe: single,
  draw: (pen, [position]) => drawCar(pen, position, 0.45),
};

// Sutton (1996), with the equations of Sutton and Barto's book; one step of Runge-Kutta of fourth order.
const acrobot = {
  fps: 15,
  reset: (random) => single(Array.from({ length: 4 }, () => between(random, -0.1, 0.1))),
  step(state, action) {
    const dt = 0.2, torque = action - 1;
    const moved = (by, slope) => state.map((value, i) => value + by * slope[i]);
    const k1 = acrobot.slope(state, torque);
    const k2 = acrobot.slope(moved(dt / 2, k1), torque);
    const k3 = acrobot.slope(moved(dt / 2, k2), torque);
    const k4 = acrobot.slope(moved(dt, k3), torque);
    const next = state.map((value, i) => value + (dt / 6) * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]));
    for (const i of [0, 1]) {
      while (next[i] > Math.PI) next[i] -= 2 * Math.PI;
      while (next[i] < -Math.PI) next[i] += 2 * Math.PI;
      next[i + 2] = bounded(next[i + 2], [-4, -9][i] * Math.PI, [4, 9][i] * Math.PI);
    }
    const terminated = -Math.cos(next[0]) - Math.cos(next[0] + next[1]) > 1;
    return { state: next, reward: terminated ? 0 : -1, terminated };
  },
  // Links of length and mass 1, centres of mass at 0.5, moments of inertia 1.
  slope([angle1, angle2, rotation1, rotation2], torque) {
    const g = 9.8, cos = Math.cos(angle2), sin = Math.sin(angle2);
    const d1 = 0.25 + (1.25 + cos) + 2;
    const d2 = 0.25 + 0.5 * cos + 1;
    const phi2 = 0.5 * g * Math.cos(angle1 + angle2 - Math.PI / 2);
    const phi1 = -0.5 * rotation2 ** 2 * sin - rotation2 * rotation1 * sin
      + 1.5 * g * Math.cos(angle1 - Math.PI / 2) + phi2;
    const faster2 = (torque + (d2 / d1) * phi1 - 0.5 * rotation1 ** 2 * sin - phi2) / (1.25 - d2 ** 2 / d1);
    return [rotation1, rotation2, -(d2 * faster2 + phi1) / d1, faster2];
  },
  observe: ([angle1, angle2, rotation1, rotation2]) =>
    single([Math.cos(angle1), Math.sin(angle1), Math.cos(angle2), Math.sin(angle2), rotation1, rotation2]),
  draw(pen, [angle1, angle2]) {
    const scale = 85, top = [300, 200];
    const elbow = [top[0] + scale * Math.sin(angle1), top[1] + scale * Math.cos(angle1)];
    const tip = [elbow[0] + scale * Math.sin(angle1 + angle2), elbow[1] + scale * Math.cos(angle1 + angle2)];
    pen.line([[0, top[1] - scale], [600, top[1] - scale]], "#9aa4b0", 2);
    pen.line([top, elbow, tip], "#178a94", 16);
    for (const joint of [top, elbow]) pen.dot(...joint, 7, "#e3b505");
  },
};

const ENVIRONMENTS = {
  "CartPole-v0": { ...cartPole, limit: 200 },
  "CartPole-v1": { ...cartPole, limit: 500 },
  "Pendulum-v1": { ...pendulum, limit: 200 },
  "MountainCar-v0": { ...mountainCar, limit: 200 },
  "MountainCarContinuous-v0": { ...mountainCarContinuous, limit: 999 },
  "Acrobot-v1": { ...acrobot, limit: 500 },
};
