/**
 * The conversation scrolls by itself, and its style keeps it at its end. This keeps it there also a little before the end, and counts new
 * items for a reader who is further up.
 */

/** Nearer to the end than this, in pixels, the reader follows. */
const NEAR = 80

const reel = document.getElementById("reel")
const pill = document.getElementById("unread")

/** Pixels to the end. */
const distance = () => reel === null ? 0 : Math.abs(reel.scrollTop)
const count = () => document.querySelectorAll("#conversation [data-key]").length

/** Items when the reader was last at the end. */
let seen = count()

const tell = () => {
  if (pill === null) return
  if (distance() <= NEAR) seen = count()
  const unread = count() - seen
  pill.hidden = unread <= 0
  const text = `↓ ${unread} new`
  if (!pill.hidden && pill.textContent !== text) pill.textContent = text
}

reel?.addEventListener("scroll", tell, { passive: true })
// A row that is opened stays where it is, and not the end.
reel?.addEventListener("click", ({ target }) => {
  const summary = target instanceof Element ? target.closest("summary") : null
  if (summary === null) return
  const before = summary.getBoundingClientRect().top
  requestAnimationFrame(() => {
    reel.scrollTop += summary.getBoundingClientRect().top - before
  })
})
pill?.addEventListener("click", (event) => {
  event.preventDefault()
  if (reel !== null) reel.scrollTop = 0
  tell()
})

/** Call it before the conversation changes, and its result afterwards. */
export const keepEnd = () => {
  const isNear = distance() <= NEAR
  return () => {
    if (isNear && reel !== null) reel.scrollTop = 0
    tell()
  }
}
