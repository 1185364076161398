// How the HTML report looks, light and dark. Knows nothing of what is in it.
export const css = `
:root { color-scheme: light dark; --bg: #fff; --fg: #1b1f24; --soft: #59636e; --line: #d8dee4; --panel: #f6f8fa;
  --same: #1a7f37; --accepted: #8a5a00; --differs: #c3202f; --mark: #ffe3e0; }
@media (prefers-color-scheme: dark) { :root { --bg: #0f1318; --fg: #e6eaef; --soft: #9aa5b1; --line: #2c343d; --panel: #171d24;
  --same: #4cc26b; --accepted: #e0a93b; --differs: #ff7b72; --mark: #4a1d1d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 90rem; padding: 1.5rem; background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, sans-serif; }
h1 { margin: 0; font-size: 1.6rem; } h2 { margin: 2.5rem 0 .75rem; font-size: 1.2rem; }
h3 { margin: 0; font-size: 1rem; } h4 { margin: 1rem 0 .25rem; font-size: .95rem; } h5 { margin: .5rem 0 .25rem; color: var(--soft); font-size: .8rem; }
small, .small { color: var(--soft); font-size: .85rem; font-weight: normal; }
.verdict { margin: .25rem 0; font-size: 1.1rem; font-weight: 600; }
.figures { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; margin: .5rem 0; padding: 0; list-style: none; }
.same { color: var(--same); } .accepted { color: var(--accepted); } .differs, .gone { color: var(--differs); } .not-run { color: var(--soft); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
.matrix { width: 100%; border-collapse: collapse; }
.matrix th, .matrix td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: center; }
.matrix tbody tr:last-child > * { border-bottom: 0; }
.matrix thead th { background: var(--panel); color: var(--soft); font-size: .78rem; font-weight: 600; }
.matrix tbody th { min-width: 18rem; text-align: left; font-weight: normal; }
.matrix tbody th span { display: block; color: var(--soft); font-size: .82rem; }
.matrix td { font-size: 1.05rem; font-weight: 700; } .matrix td a { display: block; color: inherit; text-decoration: none; }
.matrix td.differs, .matrix td.gone { background: var(--mark); }
.matrix sup { font-size: .6rem; font-weight: normal; }
article { margin: 0 0 1rem; padding: 1rem; border: 1px solid var(--line); border-left: 4px solid currentColor; border-radius: 8px; background: var(--panel); }
article > * { color: var(--fg); } article h3 { color: inherit; } article .small { color: var(--soft); }
article p { margin: .25rem 0; overflow-wrap: anywhere; }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; }
ol { margin: 0; padding: 0 0 0 2rem; font: 12.5px/1.55 ui-monospace, monospace; overflow-wrap: anywhere; }
li.at { background: var(--mark); font-weight: 600; } li.after { color: var(--soft); }
details { padding: .3rem 0; border-bottom: 1px solid var(--line); } summary { cursor: pointer; }
:target { outline: 2px solid var(--accepted); outline-offset: 2px; }
`;
