/** The one style sheet: inline, so that the page works offline; the policy header names its hash. */
export const STYLE = `
:root { color-scheme: light dark;
  --back: #f6f7f9; --card: #fff; --text: #1b2330; --soft: #566072; --line: #d9dee6;
  --good: #14713d; --wait: #8a5300; --bad: #b3261e; --fill: #2f6fb3; --more: #7a5ab5; --track: #e3e7ee; }
@media (prefers-color-scheme: dark) { :root {
  --back: #12161c; --card: #1a2029; --text: #e5e9f0; --soft: #a2adbd; --line: #323b48;
  --good: #5fd08f; --wait: #f0b357; --bad: #ff8a80; --fill: #5b9fe6; --more: #b094ea; --track: #2a323e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.25rem; max-width: 80rem; background: var(--back); color: var(--text);
  font: 0.95rem/1.5 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; align-items: baseline; }
h1 { font-size: 1.3rem; margin: 0; }
h2 { font-size: 1.2rem; margin: 2rem 0 0.25rem; }
h3 { font-size: 0.95rem; margin: 0 0 0.6rem; }
caption { text-align: left; } caption h3 { margin-bottom: 0.2rem; }
p { margin: 0.25rem 0; }
a { color: inherit; }
code { font: 0.85em ui-monospace, monospace; overflow-wrap: anywhere; }
form { margin: 0; }
header form { margin-left: auto; }
button, input { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line);
  border-radius: 0.35rem; padding: 0.3rem 0.8rem; }
button { cursor: pointer; } button:hover { border-color: var(--soft); }
:focus-visible { outline: 2px solid var(--fill); outline-offset: 2px; }
.login { max-width: 34rem; margin: 10vh auto; } .login h1 { margin-bottom: 0.6rem; }
.login form { display: flex; flex-wrap: wrap; gap: 0.6rem; align-items: center; margin-top: 0.9rem; }
.login input { flex: 1; min-width: 12rem; }
.soft, .none, .hint { color: var(--soft); }
.hint { font-size: 0.9em; font-weight: 400; }
.key { display: inline-block; width: 0.6rem; height: 0.6rem; border-radius: 0.15rem; }
.key.fill { background: var(--fill); } .key.more { background: var(--more); }
.good { color: var(--good); } .wait { color: var(--wait); } .bad { color: var(--bad); }
.state { font-weight: 600; white-space: nowrap; }
.banner { border-left: 0.3rem solid currentColor; background: var(--card); padding: 0.6rem 0.9rem; margin: 0.75rem 0; }
.banner p, .banner div { color: var(--text); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 0.9rem; margin: 0.9rem 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 0.5rem; padding: 0.9rem 1rem; }
.wide { margin: 0.9rem 0; overflow-x: auto; }
dl { display: grid; grid-template-columns: 1fr auto; gap: 0.2rem 1rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; text-align: right; font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; height: 0.6rem; margin: 0.3rem 0 0.1rem; border-radius: 0.3rem; }
.track { fill: var(--track); } .fill { fill: var(--fill); } .more { fill: var(--more); } .mark { fill: var(--text); }
.window { margin-bottom: 0.8rem; }
.row { display: flex; justify-content: space-between; gap: 1rem; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; min-width: 46rem; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.9rem 0.35rem 0; border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--soft); font-weight: 500; font-size: 0.9em; white-space: nowrap; }
tbody th { font-weight: 600; }
td.nowrap, td.nowrap code { white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.text { overflow-wrap: anywhere; min-width: 12rem; }
`;
