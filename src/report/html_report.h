// Defines html_report(): a page that shows a training run, or several side by
// side.
//
//   write_html_report({read_run("runs/first")}, "runs/first/report.html");
//
// The page is one file that needs nothing else, neither network nor script, and
// what it quotes from the run's files is text in it, never markup.
#pragma once

#include <string>
#include <vector>

#include "report/run_log.h"

namespace zero::report {

// Throws: ConfigError if there is no run.
std::string html_report(const std::vector<RunLog>& runs);

// Whoever opens the file meanwhile sees the page before or after, not half of
// it. Throws: IoError, ConfigError.
void write_html_report(
    const std::vector<RunLog>& runs,
    const std::string& path);

// ---- the looks of the page, and its script ----

// Colours that differ for the colour-blind too, and that stand out from both
// backgrounds.
inline constexpr const char* kReportStyle = R"css(
:root { color-scheme: light dark; --page: #f7f7f5; --card: #fff; --ink: #22262b;
  --soft: #5d646d; --grid: #e4e5e3; --mark: #fff3d6;
  --c0: #0069a8; --c1: #c8500a; --c2: #00805c; --c3: #a8458a; --c4: #8a6a00;
  --c5: #56606b; --c6: #5b51c4; }
@media (prefers-color-scheme: dark) { :root { --page: #15181c; --card: #1d2126;
  --ink: #e4e7ea; --soft: #a3abb4; --grid: #343a41; --mark: #3d3520;
  --c0: #5fb2f2; --c1: #ff9457; --c2: #41cda0; --c3: #eda0d2; --c4: #e6c35c;
  --c5: #b9c1ca; --c6: #aaa3ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
main { max-width: 1180px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.3rem; margin: 3rem 0 1rem; }
h3 { font-size: 1rem; margin: 0; }
p { margin: .2rem 0; max-width: 70ch; }
.soft, figcaption p, caption, dt { color: var(--soft); font-size: .875rem; }
.tiles, .charts { display: grid; gap: 1rem; margin: 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 9.5rem), 1fr)); }
.tiles { margin-top: 1.75rem; }
.charts { grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); }
.tiles div, .chart, .card { background: var(--card); border-radius: 10px;
  border: 1px solid var(--grid); padding: 1rem 1.1rem; margin: 0; min-width: 0; }
dd { margin: 0; font-size: 1.3rem; font-weight: 600; }
.chart { display: flex; flex-direction: column; }
.chart > svg { width: 100%; max-width: 100%; height: auto; margin-top: auto;
  overflow: visible; touch-action: pan-y; }
.chart .read { min-height: 1.4em; font-size: .8rem; color: var(--soft);
  font-variant-numeric: tabular-nums; margin: 0; max-width: none; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1rem;
  margin: .4rem 0; padding: 0; font-size: .8rem; }
.legend svg { width: 28px; height: 12px; margin-right: .4rem; }
svg text { font-size: 11.5px; fill: var(--soft); font-variant-numeric: tabular-nums; }
text.x { text-anchor: middle; }
text.y { text-anchor: end; dominant-baseline: central; }
.grid { stroke: var(--grid); } .mark { stroke: var(--soft); stroke-dasharray: 2 3; } .axis, .cursor { stroke: var(--soft); }
.s0 { --s: var(--c0); } .s1 { --s: var(--c1); } .s2 { --s: var(--c2); }
.s3 { --s: var(--c3); } .s4 { --s: var(--c4); } .s5 { --s: var(--c5); }
.s6 { --s: var(--c6); }
.line, .faint { fill: none; stroke: var(--s); stroke-width: 2; stroke-linejoin: round; }
.faint { stroke-width: 1; opacity: .35; }
.legend .faint { stroke-width: 2; opacity: .55; }
.fill { fill: var(--s); }
.area { fill: var(--s); fill-opacity: .8; stroke: var(--card); stroke-width: .8; }
details { margin-top: .6rem; } summary { cursor: pointer; font-size: .875rem; }
.scroll { overflow-x: auto; max-height: 30rem; overflow-y: auto; margin-top: .5rem; }
table { border-collapse: collapse; font-size: .875rem; overflow-wrap: normal;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { text-align: left; padding: .3rem 1.2rem .3rem .4rem; vertical-align: top;
  border-bottom: 1px solid var(--grid); unicode-bidi: isolate; }
.chart td, .chart th { text-align: right; white-space: nowrap; }
th { font-weight: 500; } thead th { color: var(--soft); }
.differs > * { background: var(--mark); }
td, .facts th { max-width: 40rem; overflow-wrap: break-word; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; font-size: .85rem;
  line-height: 1.5; unicode-bidi: isolate; }
.card + .card { margin-top: .8rem; }
:focus-visible { outline: 2px solid var(--c0); outline-offset: 2px; }
@media (max-width: 600px) { main { padding: 1.5rem .8rem 3rem; }
  .tiles { grid-template-columns: 1fr 1fr; gap: .6rem; } dd { font-size: 1.1rem; }
  .chart > svg text { font-size: 15px; } .chart, .card { padding: .8rem; } }
@media print { .chart { break-inside: avoid; } }
)css";

// Shows the values under the pointer. It reads them back from the picture, so
// that the page need not have them twice.
inline constexpr const char* kReportScript = R"js(
const shown = (v, unit) => {
  const short = n => Math.abs(n) >= 1000 ? Math.round(n).toLocaleString("en")
    : String(Number(n.toPrecision(3)));
  if (unit === "share") return short(v * 100) + " %";
  if (unit === "seconds") return Math.abs(v) < 1 ? short(v * 1e3) + " ms" : short(v) + " s";
  if (unit !== "bytes") return short(v);
  const k = v < 1024 ? 0 : Math.min(5, Math.floor(Math.log2(v) / 10));
  return short(v / 1024 ** k) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][k];
};
for (const svg of document.querySelectorAll("svg[data-x]")) {
  const [xs, ys] = [svg.dataset.x, svg.dataset.y].map(s => s.split(" ").map(Number));
  const back = ([low, high, begin, end], at, log) => {
    const share = (at - begin) / (end - begin);
    return log ? low * (high / low) ** share : low + share * (high - low);
  };
  const lines = [...svg.querySelectorAll("path[data-name]")].reverse().map(path => ({
    name: path.dataset.name,
    points: path.getAttribute("d").match(/[\d.]+ [\d.]+/g)?.map(p => p.split(" ").map(Number)) ?? [],
  })).filter(line => line.points.length);
  const read = document.createElement("p");
  read.className = "read";
  svg.after(read);
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
  cursor.setAttribute("class", "cursor");
  svg.append(cursor);
  svg.addEventListener("pointermove", event => {
    const at = new DOMPoint(event.clientX, event.clientY)
      .matrixTransform(svg.getScreenCTM().inverse()).x;
    const gap = p => Math.abs(p[0] - at);
    const near = lines.map(line => {
      const upper = "areas" in svg.dataset ? line.points.slice(0, line.points.length / 2) : line.points;
      return upper.reduce((a, b) => gap(b) < gap(a) ? b : a);
    });
    const best = near.reduce((a, b) => gap(b) < gap(a) ? b : a);
    const value = p => back(ys, p[1], "log" in svg.dataset);
    read.textContent = svg.dataset.xName + " " + shown(Math.round(back(xs, best[0]))) + ": " +
      lines.map((line, i) => {
        if (Math.abs(near[i][0] - best[0]) > 2) return "";
        const below = "areas" in svg.dataset && i ? value(near[i - 1]) : 0;
        return line.name + " " + shown(value(near[i]) - below, svg.dataset.unit);
      }).filter(Boolean).join(" · ");
    cursor.setAttribute("d", `M${best[0]} ${ys[2]}V${ys[3]}`);
  });
  svg.addEventListener("pointerleave", () => {
    read.textContent = "";
    cursor.removeAttribute("d");
  });
}
)js";
// Nothing else may run on the page. A test compares it with the script.
inline constexpr const char* kReportScriptHash =
    "sha256-cqCwOZL1BUG0IjIJJrjJ+gxgsWF7N5oTUCXM/SeZJQU=";

} // namespace zero::report
