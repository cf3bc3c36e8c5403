/** Says when something waits for a person: in the title, and by a notification for who asked for it. */
import { morph, parsed } from "./morph.js"

const NOTIFY = "slipway:notify"
const LOOK_MS = 30_000

let title = document.title
const button = document.getElementById("notify")
const base = document.documentElement.dataset["base"] ?? ""
/** Requests, by sandbox, that somebody was told of, or saw when the page was loaded. @type {Set<string> | null} */
let known = null

export const wants = () => {
  try {
    return localStorage.getItem(NOTIFY) === "on" && "Notification" in window && Notification.permission === "granted"
  } catch {
    return false
  }
}

/** After the page's piece may have changed. */
export const tellWaiting = () => {
  /** @type {ReadonlyArray<{ readonly id: string, readonly title: string, readonly asks: ReadonlyArray<string> }>} */
  const waiting = JSON.parse(document.getElementById("waiting")?.dataset["list"] ?? "[]")
  const heading = document.getElementById("title")?.textContent ?? ""
  if (heading !== "") title = `${heading} · Slipway`
  document.title = waiting.length === 0 ? title : `(${waiting.length}) ${title}`
  const before = known
  known = new Set(waiting.flatMap(({ asks, id }) => asks.map((request) => `${id} ${request}`)))
  if (before === null || !wants()) return
  for (const { asks, id, title } of waiting) {
    if (asks.every((request) => before.has(`${id} ${request}`))) continue
    const note = new Notification("A sandbox needs you", { body: title, tag: id })
    note.addEventListener("click", () => open(`${base}/sandboxes/${id}`))
  }
}

const showButton = () => {
  if (!(button instanceof HTMLButtonElement) || !("Notification" in window)) return
  button.hidden = false
  button.setAttribute("aria-pressed", String(wants()))
  button.disabled = Notification.permission === "denied"
}
button?.addEventListener("click", async () => {
  const on = !wants() && await Notification.requestPermission() === "granted"
  try {
    localStorage.setItem(NOTIFY, on ? "on" : "off")
  } catch { /* Nothing is kept, so nothing is told. */ }
  showButton()
})
showButton()
tellWaiting()

/** For pages without other updates while they are hidden: asks for the piece and the rail now and then, as long as it is of use. */
export const lookAgain = () => {
  let etag = ""
  setInterval(async () => {
    if (document.visibilityState !== "visible" && !wants()) return
    const headers = etag === "" ? {} : { "if-none-match": etag }
    const at = document.getElementById("rail")?.dataset["at"]
    const answer = await fetch(`${base}/sandboxes/waiting${at === undefined ? "" : `?at=${at}`}`, { headers }).catch(() => null)
    if (answer?.status !== 200 || answer.redirected) return
    etag = answer.headers.get("etag") ?? ""
    for (const piece of parsed(await answer.text()).querySelectorAll("[data-piece]")) {
      const old = document.getElementById(piece.id)
      if (old !== null) morph(old, piece)
    }
    tellWaiting()
  }, LOOK_MS)
}
