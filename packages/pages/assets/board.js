/** Keeps lists up to date, tells times as people do, and says when something waits for a person. */
import { morph, parsed } from "./morph.js"
import { tellTimes } from "./times.js"
import { tellWaiting, wants } from "./waiting.js"

/** While somebody looks and things change. */
const LOOK_MS = 4000
/** Each look that finds nothing new makes the pause before the next one longer by this. */
const SLOWER = 1.5
/** The longest pause while somebody looks. */
const QUIET_MS = 15_000
/** The interval while the page is hidden, and after an error. */
const SELDOM_MS = 30_000

const watched = document.getElementById("watched")
const line = document.getElementById("watching")
const base = document.documentElement.dataset["base"] ?? ""
const address = watched === null ? "" : base + watched.dataset["look"]

// ---- looking again

let etag = ""
let timer = 0
let pause = LOOK_MS

/** @param {string} text */
const say = (text) => {
  if (line !== null && line.textContent !== text) line.textContent = text
}

const look = async () => {
  const answer = await fetch(address, { headers: etag === "" ? {} : { "if-none-match": etag } })
  if (answer.redirected || answer.status === 401) return say("Your session has ended. Load the page again.")
  if (answer.status === 200) {
    etag = answer.headers.get("etag") ?? ""
    for (const piece of parsed(await answer.text()).querySelectorAll("[data-piece]")) {
      const old = document.getElementById(piece.id)
      if (old !== null) morph(old, piece)
    }
    tellWaiting()
    pause = LOOK_MS
  } else if (answer.status === 304) pause = Math.min(QUIET_MS, pause * SLOWER)
  else throw new Error(`${answer.status}`)
  say("")
}

const again = () => {
  clearTimeout(timer)
  const isSeen = document.visibilityState === "visible"
  timer = setTimeout(async () => {
    let next = again
    try {
      if (isSeen || wants()) await look()
    } catch {
      say("Disconnected, retrying…")
      next = () => timer = setTimeout(again, SELDOM_MS)
    }
    tellTimes("main time")
    next()
  }, isSeen ? pause : SELDOM_MS)
}

if (watched !== null) {
  tellTimes("main time")
  again()
  document.addEventListener("visibilitychange", () => {
    pause = LOOK_MS
    again()
  })
}
