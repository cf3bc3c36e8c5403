/** Single keys for lists and approvals. Off while somebody types, and for good by a choice in the help. */

const OFF = "slipway:keys"
const help = document.getElementById("keys-help")
const choice = document.getElementById("keys-on")

const isOn = () => {
  try {
    return localStorage.getItem(OFF) !== "off"
  } catch {
    return true
  }
}

if (choice instanceof HTMLInputElement) {
  choice.checked = isOn()
  choice.addEventListener("change", () => {
    try {
      localStorage.setItem(OFF, choice.checked ? "on" : "off")
    } catch { /* It holds for this page only if nothing is kept. */ }
  })
}

const links = () => [...document.querySelectorAll("[data-item] th a, [data-item] h3 a, .approval")].filter((item) => item.checkVisibility())

/** @param {number} step */
const move = (step) => {
  const all = links()
  const here = all.findIndex((item) => item.contains(document.activeElement))
  const next = all[here < 0 ? step > 0 ? 0 : all.length - 1 : Math.min(Math.max(here + step, 0), all.length - 1)]
  if (!(next instanceof HTMLElement)) return
  if (next.matches(".approval")) next.tabIndex = -1
  next.focus()
}

/** Whether all of it is on the screen: nothing of it is scrolled away, neither on the page nor within it. @param {Element} card */
const isWhollySeen = (card) => {
  const { bottom, left, right, top } = card.getBoundingClientRect()
  // A fraction of a pixel is lost in rounding.
  const isWithin = (/** @type {{ top: number, left: number, bottom: number, right: number }} */ room) =>
    top >= room.top - 1 && left >= room.left - 1 && bottom <= room.bottom + 1 && right <= room.right + 1
  if (!isWithin({ top: 0, left: 0, bottom: document.documentElement.clientHeight, right: document.documentElement.clientWidth })) {
    return false
  }
  for (let around = card.parentElement; around !== null && around !== document.body; around = around.parentElement) {
    if (getComputedStyle(around).overflow !== "visible" && !isWithin(around.getBoundingClientRect())) return false
  }
  return [...card.querySelectorAll("pre, .diff-box, .asked")].every(({ clientHeight, clientWidth, scrollHeight, scrollWidth }) =>
    scrollHeight <= clientHeight + 1 && scrollWidth <= clientWidth + 1
  )
}

/** Presses the button of the approval that has the focus, if all of it can be seen. @param {"approve" | "deny"} decision */
const decide = (decision) => {
  const card = document.activeElement?.closest(".approval") ?? null
  if (card === null) return
  const button = card.querySelector(`button[value="${decision}"]`)
  if (!isWhollySeen(card)) card.scrollIntoView({ block: "nearest" })
  else if (button instanceof HTMLButtonElement) button.click()
}

/** @type {Readonly<Record<string, () => void>>} */
const actions = {
  j: () => move(1),
  k: () => move(-1),
  a: () => decide("approve"),
  d: () => decide("deny"),
  "/": () => {
    const search = document.getElementById("search")
    search?.focus()
    if (search instanceof HTMLInputElement) search.select()
  },
  "?": () => {
    if (help instanceof HTMLDialogElement && !help.open) help.showModal()
  }
}

document.addEventListener("keydown", (event) => {
  const { altKey, ctrlKey, isComposing, key, metaKey, repeat, target } = event
  if (altKey || ctrlKey || metaKey || isComposing || event.defaultPrevented || help instanceof HTMLDialogElement && help.open) return
  if (target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null) {
    // A checkbox of a row takes no letters.
    if (!(target instanceof HTMLInputElement && target.type === "checkbox")) return
  }
  const action = actions[key]
  // The help tells how to turn the keys on again.
  if (action === undefined || !isOn() && key !== "?" || repeat && (key === "a" || key === "d")) return
  event.preventDefault()
  action()
})
