/**
 * Makes an element of the page what the server now says it is, and leaves alone what is the reader's: where the focus is, what they
 * selected, typed, opened and scrolled to.
 */
import { Idiomorph } from "idiomorph"

/**
 * Whether the server last wanted it open. What the reader did since counts for more.
 * @type {WeakMap<HTMLDetailsElement, boolean>}
 */
const wanted = new WeakMap()

/** @param {ParentNode} within */
const remember = (within) => {
  for (const details of within.querySelectorAll("details")) if (!wanted.has(details)) wanted.set(details, details.open)
}
remember(document)

/** @param {Element} field */
const isChanged = (field) =>
  field instanceof HTMLTextAreaElement
    ? field.value !== field.defaultValue
    : field instanceof HTMLInputElement
    ? field.type !== "hidden" && (field.value !== field.defaultValue || field.checked !== field.defaultChecked)
    : field instanceof HTMLOptionElement && field.selected !== field.defaultSelected

/** Attributes that a field's content comes from. */
const CONTENT = ["value", "checked", "selected"]

const callbacks = {
  /** @param {Node} old @param {Node} now */
  beforeNodeMorphed: (old, now) => {
    // Only scripts of the page fill it.
    if (old instanceof HTMLElement && old.dataset["kept"] !== undefined) return false
    if (old instanceof Text && now instanceof Text && old.data !== now.data && now.data.startsWith(old.data)) {
      // The selection stays.
      old.appendData(now.data.slice(old.data.length))
      return false
    }
    if (old instanceof HTMLDetailsElement && now instanceof HTMLDetailsElement) {
      const isNew = wanted.get(old) !== now.open
      wanted.set(old, now.open)
      // An open detail that is being read is not closed.
      if (isNew && !old.contains(document.activeElement)) old.open = now.open
    }
    return true
  },
  /** @param {string} name @param {Element} element */
  beforeAttributeUpdated: (name, element) => {
    if (name === "open") return !(element instanceof HTMLDetailsElement)
    // A form that was sent says so itself: see `live.js`.
    if (name === "aria-busy" || name === "aria-disabled") return false
    return !(CONTENT.includes(name) && isChanged(element))
  }
}

/** The visible tail of the element stays visible. */
const END = 8

/**
 * Morphs `old` into `now`. An element within that had the focus and is gone gives it to `focusNext`.
 * @param {Element} old
 * @param {Element} now
 * @param {() => HTMLElement | null} focusNext
 */
export const morph = (old, now, focusNext = () => null) => {
  const focused = old.contains(document.activeElement) ? document.activeElement : null
  const tails = [...old.querySelectorAll("[data-tail]")].filter((box) => box.scrollTop + box.clientHeight >= box.scrollHeight - END)
  Idiomorph.morph(old, now, { morphStyle: "outerHTML", restoreFocus: false, callbacks })
  remember(old)
  for (const box of tails) box.scrollTop = box.scrollHeight
  if (focused !== null && !(focused.isConnected && focused.checkVisibility())) focusNext()?.focus()
}

/** The elements of HTML of ours. @param {string} html */
export const parsed = (html) => new DOMParser().parseFromString(html, "text/html")
