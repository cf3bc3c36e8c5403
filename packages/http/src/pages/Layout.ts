/** The document around every page. */
import { scopesOf } from "@slipway/domain/access/Minting"
import type { Scope } from "@slipway/domain/access/Principal"
import type { Visit } from "@slipway/domain/access/Session"
import type { User } from "@slipway/domain/access/User"
import * as Assets from "./Assets.ts"
import { html, type Html } from "./Html.ts"

/** What the navigation leads to. */
type Place = "sandboxes" | "keys" | "webhooks"

/** `needs`: shown to those alone whose role has the scope. */
const PLACES: ReadonlyArray<readonly [place: Place, path: string, name: string, needs: Scope | null]> = [
  ["sandboxes", "/sandboxes", "Sandboxes", null],
  ["keys", "/keys", "Keys", null],
  ["webhooks", "/webhooks", "Webhooks", "webhooks"]
]

export interface Document {
  readonly title: string
  readonly body: Html
  /** Which of the navigation's places this is, or belongs to. */
  readonly place?: Place
  /** Files of `assets` beside `page.js`, as modules. */
  readonly scripts?: ReadonlyArray<string>
}

/** Whose page it is. `csrf` are the hidden fields of forms: whose they are, and of which grant. */
export interface Reader {
  readonly user: User
  readonly visit: Visit
  readonly csrf: Html
}

const isOpen = ({ place }: Visit, needs: Scope | null): boolean => needs === null || place !== null && scopesOf(place.role).includes(needs)

const navigation = ({ csrf, user, visit }: Reader, here: Place | undefined): Html => {
  const places = PLACES.filter(([, , , needs]) => isOpen(visit, needs)).map(([place, path, name]) =>
    html`
      <li><a href="${path}"${place === here && html` aria-current="page"`}>${name}</a></li>`
  )
  return html`
  <nav aria-label="Main">
    <ul class="places">${places}
    </ul>
    <div class="reader">
      <a class="name" href="/keys#me">${user.name}</a>
      <form method="post" action="/sign-out">${csrf}<button class="quiet">Sign out</button></form>
    </div>
  </nav>`
}

/** `reader: null`: nobody is signed in. */
export const render = ({ body, place, scripts = [], title }: Document, reader: Reader | null): string => {
  const modules = ["page.js", ...scripts].map((script) =>
    html`<script type="module" src="${Assets.addressOf(script)}"></script>
`
  )
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${title} · Slipway</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" type="image/svg+xml" href="${Assets.addressOf("icon.svg")}">
<link rel="stylesheet" href="${Assets.addressOf("style.css")}">
${modules}</head>
<body>
<a class="skip" href="#main">Skip to content</a>
<header>
  <p class="brand">Slipway</p>${reader !== null && navigation(reader, place)}
</header>
<main id="main" tabindex="-1">
${body}
</main>
</body>
</html>
`.toString()
}
