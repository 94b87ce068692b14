"use strict";
// Plays a policy in an environment and shows it.

const policy = JSON.parse(document.getElementById("policy").textContent);
const environment = ENVIRONMENTS[policy.metadata.environment];
const byId = (id) => document.getElementById(id);
const canvas = byId("scene");
const context = canvas.getContext("2d");
const number = (value) => value.toLocaleString("en", { maximumFractionDigits: 2, minimumFractionDigits: 0 });

let state, action, steps, total, running = true, credit = 0, last = null;
const returns = [];

const pen = {
  path(points) {
    context.beginPath();
    points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  },
  line(points, colour, width) {
    pen.path(points);
    Object.assign(context, { strokeStyle: colour, lineWidth: width, lineCap: "round", lineJoin: "round" });
    context.stroke();
  },
  polygon(points, colour) {
    pen.path(points);
    context.fillStyle = colour;
    context.fill();
  },
  box: (x, y, width, height, colour) =>
    pen.polygon([[x, y], [x + width, y], [x + width, y + height], [x, y + height]], colour),
  dot(x, y, radius, colour) {
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fillStyle = colour;
    context.fill();
  },
  arc(x, y, radius, from, to, colour) {
    context.beginPath();
    context.arc(x, y, radius, Math.min(from, to), Math.max(from, to));
    Object.assign(context, { strokeStyle: colour, lineWidth: 5 });
    context.stroke();
  },
};

function restart() {
  state = environment.reset(Math.random);
  action = null;
  steps = total = credit = 0;
}

function step() {
  action = act(policy, environment.observe(state));
  const result = environment.step(state, action);
  state = result.state;
  steps += 1;
  total += result.reward;
  if (!result.terminated && steps < environment.limit) return;
  returns.push(total);
  restart();
}

function show() {
  const scale = canvas.width / 600;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, 600, 400);
  environment.draw(pen, state, action);
  byId("episode").textContent = number(returns.length + 1);
  byId("step").textContent = number(steps);
  byId("return").textContent = number(total);
  byId("mean").textContent = returns.length ? number(returns.reduce((a, b) => a + b) / returns.length) : "–";
  byId("returns").textContent = returns.slice(-10).reverse().map(number).join(", ") || "none yet";
}

function frame(now) {
  const elapsed = last === null ? 0 : Math.min((now - last) / 1000, 0.25);
  last = now;
  if (running) {
    credit += elapsed * environment.fps * speed();
    for (; credit >= 1 && performance.now() - now < 25; credit -= 1) step();
    credit = Math.min(credit, 1); // a slow machine plays slower, instead of standing still
  }
  show();
  requestAnimationFrame(frame);
}

const speed = () => 2 ** Number(byId("speed").value);

function resize() {
  const width = canvas.clientWidth * (window.devicePixelRatio || 1);
  canvas.width = Math.max(Math.round(width), 1);
  canvas.height = Math.round((canvas.width * 2) / 3);
}

byId("speed").addEventListener("input", () => (byId("times").textContent = `${number(speed())}×`));
byId("restart").addEventListener("click", restart);
byId("pause").addEventListener("click", () => {
  running = !running;
  byId("pause").textContent = running ? "Pause" : "Go on";
});
window.addEventListener("resize", resize);
resize();
restart();
requestAnimationFrame(frame);
