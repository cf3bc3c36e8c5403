/** Tells times as people do. */

const UNITS = /** @type {const} */ ([["day", 86_400], ["hour", 3600], ["minute", 60]])
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" })

/** @param {number} at */
const ago = (at) => {
  const seconds = (at - Date.now()) / 1000
  const [unit, length] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? [null, 1]
  return unit === null ? "just now" : relative.format(Math.round(seconds / length), unit)
}

/** Relative, with the exact local time beside it for who wants to know. @param {string} selector */
export const tellTimes = (selector) => {
  for (const time of document.querySelectorAll(selector)) {
    if (!(time instanceof HTMLTimeElement)) continue
    const at = Date.parse(time.dateTime)
    if (Number.isNaN(at)) continue
    const [text, title] = [ago(at), new Date(at).toLocaleString()]
    if (time.textContent !== text) time.textContent = text
    if (time.title !== title) time.title = title
  }
}
