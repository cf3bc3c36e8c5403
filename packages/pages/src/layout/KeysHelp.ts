/** The help for keyboard shortcuts, which `keys.js` opens. Its links are where the keys of navigation lead. */
import { html, type Html } from "../html/Html.ts"

interface Key {
  /** Pressed one after the other. */
  readonly keys: string
  readonly what: string
}

/** A key that leads to a page. */
interface GoKey extends Key {
  readonly href: string
}

const KEYS: ReadonlyArray<Key> = [
  { keys: "j", what: "Next item" },
  { keys: "k", what: "Previous item" },
  { keys: "Enter", what: "Open" },
  { keys: "a", what: "Approve the focused card, if it is fully visible" },
  { keys: "d", what: "Deny the focused card, if it is fully visible" },
  { keys: "r", what: "Write a message" },
  { keys: "i", what: "Stop the turn" },
  { keys: "p", what: "Focus the publish button" },
  { keys: "e", what: "Focus “End sandbox…”" },
  { keys: "]", what: "Next changed file" },
  { keys: "[", what: "Previous changed file" },
  { keys: "v", what: "Mark the changed file as viewed, and go to the next" },
  { keys: "/", what: "Search" },
  { keys: "?", what: "This help" }
]

const pressed = (keys: string): ReadonlyArray<Html> => keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)

export const render = (goes: ReadonlyArray<GoKey>): Html => {
  const [leading, doing] = [
    goes.map(({ href, keys, what }) =>
      html`<dt>${pressed(keys)}</dt><dd><a href="${href}" data-keys="${keys}">${what}</a></dd>
`
    ),
    KEYS.map(({ keys, what }) =>
      html`<dt>${pressed(keys)}</dt><dd>${what}</dd>
`
    )
  ]
  return html`<dialog id="keys-help" aria-labelledby="keys-title">
<h2 id="keys-title">Keys</h2>
<dl class="facts">${leading}${doing}<dt><kbd>Ctrl</kbd> or <kbd>⌘</kbd> <kbd>Enter</kbd></dt><dd>Send what is typed</dd>
<dt><kbd>Ctrl</kbd> or <kbd>⌘</kbd> <kbd>k</kbd></dt><dd>Search sandboxes, pages and actions</dd>
</dl>
<div class="choice"><input type="checkbox" id="keys-on" checked><label for="keys-on">Enable shortcuts</label></div>
<form method="dialog" class="actions"><button>Close</button></form>
</dialog>`
}
