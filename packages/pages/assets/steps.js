/** Counts how long something goes on, and folds rows of finished steps into one row. */

/** Fewer finished rows in a row are not folded. */
const LEAST_STEPS = 3

/** `1 h 2 min`, `3 min 4 s`, `5.6 s`, as the server says it. @param {number} millis */
const duration = (millis) => {
  if (millis < 10_000) return `${(millis / 1000).toFixed(1)} s`
  const seconds = Math.round(millis / 1000)
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
  if (hours > 0) return `${hours} h ${minutes} min`
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`
}

/** `4 s`, `1:42`, `1:02:03`. @param {number} seconds */
const clock = (seconds) => {
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60].map((part) => String(part))
  if (seconds < 60) return `${rest} s`
  return seconds < 3600 ? `${minutes}:${rest?.padStart(2, "0")}` : `${hours}:${minutes?.padStart(2, "0")}:${rest?.padStart(2, "0")}`
}

/** How long ago something began that goes on. */
export const tellSince = () => {
  for (const element of document.querySelectorAll("[data-since]")) {
    if (!(element instanceof HTMLElement)) continue
    const text = clock(Math.max(0, Math.floor((Date.now() - Date.parse(element.dataset["since"] ?? "")) / 1000)))
    if (element.textContent !== text) element.textContent = text
  }
}

/** @param {ReadonlyArray<HTMLElement>} run */
const summaryOf = (run) => {
  const calls = run.filter((item) => item.matches(".tool"))
  const files = new Set(calls.flatMap((item) => (item.dataset["paths"] ?? "").split("\n").filter((path) => path !== ""))).size
  const ms = calls.reduce((sum, item) => sum + Number(item.dataset["ms"]), 0)
  return [`${calls.length} steps`, files === 0 ? "" : files === 1 ? "1 file" : `${files} files`, ms < 1000 ? "" : duration(ms)]
    .filter((part) => part !== "").join(" · ")
}

/** Whether the reader is at one of them, or opened it. @param {HTMLElement} item */
const isRead = (item) =>
  item.contains(document.activeElement) || item.querySelector("details[open]") !== null ||
  getSelection()?.isCollapsed === false && getSelection()?.containsNode(item, true) === true

/** Rows of finished steps between two messages become one row, which opens. @param {HTMLElement} conversation */
export const fold = (conversation) => {
  /** @type {Array<HTMLElement>} */
  let run = []
  for (const item of [...conversation.children]) {
    if (!(item instanceof HTMLElement)) continue
    if (item.matches(".reasoning, .tool[data-done]")) {
      run.push(item)
      continue
    }
    if (!item.matches(".tool") && run.filter((one) => one.matches(".tool")).length >= LEAST_STEPS && !run.some(isRead)) {
      const steps = document.createElement("li")
      steps.className = "steps"
      const details = document.createElement("details")
      const summary = document.createElement("summary")
      summary.textContent = summaryOf(run)
      const list = document.createElement("ol")
      details.append(summary, list)
      steps.append(details)
      item.before(steps)
      list.append(...run)
    }
    run = []
  }
}
