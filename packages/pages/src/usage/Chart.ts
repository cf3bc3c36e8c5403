/** Charts as SVG, each with a table of the same numbers. Values have any unit; `text` shows a value with its unit. */
import { html, type Html } from "../html/Html.ts"

export interface Bar {
  readonly label: string
  /** At least 0. */
  readonly value: number
  readonly text: string
}

/** The heads of a chart's labels and values. */
interface Named {
  readonly caption: string
  readonly head: string
  readonly unit: string
}

const WIDTH = 600
const HEIGHT = 120
const ROW = 26
const NAMES = 200
/** For what stands behind a bar. */
const TEXTS = 100

const rounded = (value: number) => Math.round(value * 10) / 10

/** The description for screen readers; the table has the rest. */
const summaryOf = (caption: string, bars: ReadonlyArray<Bar>): string => {
  const largest = bars.reduce<Bar | null>((known, bar) => known === null || bar.value > known.value ? bar : known, null)
  return largest === null ? caption : `${caption}. The most: ${largest.label}, ${largest.text}.`
}

const pictured = ({ caption, head, unit }: Named, bars: ReadonlyArray<Bar>, height: number, drawn: ReadonlyArray<Html>): Html => {
  const rows = bars.map(({ label, text }) =>
    html`<tr><th scope="row">${label}</th><td>${text}</td></tr>
`
  )
  return html`<figure><figcaption>${caption}</figcaption>
<svg class="chart" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${summaryOf(caption, bars)}">
${drawn}</svg>
<details><summary>${caption}, as a table</summary>
<table class="figures"><caption class="unseen">${caption}</caption>
<thead><tr><th scope="col">${head}</th><th scope="col">${unit}</th></tr></thead>
<tbody>
${rows}</tbody></table></details></figure>
`
}

/** Vertical bars in the given order, such as days. */
export const columns = (named: Named, bars: ReadonlyArray<Bar>): Html => {
  const most = Math.max(...bars.map(({ value }) => value), 1)
  const step = WIDTH / Math.max(bars.length, 1)
  const drawn = bars.map(({ label, text, value }, i) => {
    const height = value === 0 ? 0 : Math.max(value / most * HEIGHT, 2)
    const [x, y, width] = [rounded(i * step + 1), rounded(HEIGHT - height), rounded(Math.max(step - 2, 1))]
    return html`<rect class="bar" x="${x}" y="${y}" width="${width}" height="${rounded(height)}"><title>${label}: ${text}</title></rect>
`
  })
  const [first, last] = [bars[0]?.label ?? "", bars.at(-1)?.label ?? ""]
  const axis = html`<line class="axis" x1="0" y1="${HEIGHT}" x2="${WIDTH}" y2="${HEIGHT}"></line>
<text x="0" y="${HEIGHT + 15}">${first}</text><text x="${WIDTH}" y="${HEIGHT + 15}" text-anchor="end">${last}</text>
`
  return pictured(named, bars, HEIGHT + 20, [axis, ...drawn])
}

/** The beginning of a name that fits beside its bar; the table has the whole name. */
const short = (label: string): string => {
  const characters = Array.from(label)
  return characters.length > 20 ? `${characters.slice(0, 19).join("")}…` : label
}

/** Horizontal bars with their names, such as repositories. */
export const rows = (named: Named, bars: ReadonlyArray<Bar>): Html => {
  const most = Math.max(...bars.map(({ value }) => value), 1)
  const drawn = bars.map(({ label, text, value }, i) => {
    const width = rounded(value / most * (WIDTH - NAMES - TEXTS))
    const line = i * ROW + 17
    return html`<text x="0" y="${line}">${short(label)}</text>
<rect class="bar" x="${NAMES}" y="${i * ROW + 4}" width="${width}" height="${ROW - 8}"></rect>
<text x="${NAMES + width + 6}" y="${line}">${text}</text>
`
  })
  return pictured(named, bars, Math.max(bars.length, 1) * ROW, drawn)
}
