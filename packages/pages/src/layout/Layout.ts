/** The document around every page. */
import type { OwnGrant } from "@slipway/domain/access/ports/SessionStore"
import { scopesOf } from "@slipway/domain/access/rules/Minting"
import type { Visit } from "@slipway/domain/access/rules/Session"
import type { Role, User } from "@slipway/domain/access/rules/User"
import * as Assets from "../assets/Assets.ts"
import { html, type Html } from "../html/Html.ts"
import * as KeysHelp from "./KeysHelp.ts"

interface Link<Name> {
  readonly place: Name
  readonly name: string
  /** Whether somebody of this role is shown the link. */
  readonly isFor: (role: Role) => boolean
  /** Keys that lead there, pressed one after the other. */
  readonly keys?: string
}
const linksTo = <const Name extends string>(links: ReadonlyArray<Link<Name>>): ReadonlyArray<Link<Name>> => links

const forAll = () => true
const forChanges = (role: Role) => role !== "viewer"
const forOwners = (role: Role) => role === "owner"

/** The links of the main navigation. */
const PLACES = linksTo([
  { place: "sandboxes", name: "Sandboxes", isFor: forAll, keys: "g s" },
  { place: "pulls", name: "Pull requests", isFor: forAll, keys: "g p" },
  { place: "settings", name: "Settings", isFor: forAll }
])

/** The pages of the settings, in the list beside each of them. */
const SETTINGS = linksTo([
  { place: "settings", name: "Account", isFor: forAll },
  { place: "keys", name: "Keys", isFor: forAll, keys: "g k" },
  { place: "members", name: "Members", isFor: forAll },
  { place: "repositories", name: "Repositories", isFor: forAll },
  { place: "secrets", name: "Secrets", isFor: forOwners },
  { place: "mcp-servers", name: "MCP servers", isFor: forOwners },
  { place: "models", name: "Models", isFor: forOwners },
  { place: "webhooks", name: "Webhooks", isFor: (role) => scopesOf(role).includes("webhooks") },
  { place: "automations", name: "Automations", isFor: (role) => scopesOf(role).includes("automations") },
  { place: "audit", name: "Audit", isFor: forOwners },
  { place: "usage", name: "Usage", isFor: forOwners, keys: "g u" }
])

type Place = (typeof PLACES | typeof SETTINGS)[number]["place"]

/** Where somebody goes on who was at a place of the navigation, and chose a grant in which the role is this one. */
export const placeFor = (place: string | null, role: Role): Place =>
  [...PLACES, ...SETTINGS].find((known) => known.place === place && known.isFor(role))?.place ?? "sandboxes"

export interface Document {
  readonly title: string
  readonly body: Html
  /** Beside the page where there is room, instead of the rail that every page has. */
  readonly rail?: Html
  /** Which of the navigation's places this is, or belongs to. */
  readonly place?: Place
  /** Files of `assets` beside those of every page, as modules. */
  readonly scripts?: ReadonlyArray<string>
}

/** Whose page it is. `csrf` are the hidden fields of forms: whose they are, and of which grant. */
export interface Reader {
  readonly user: User
  readonly visit: Visit
  readonly csrf: Html
  /** That the user may work in. */
  readonly grants: ReadonlyArray<OwnGrant>
}

const keysHelp = ({ visit }: Reader): Html => {
  const role = visit.place?.role ?? "member"
  const goes = [...PLACES, ...SETTINGS].flatMap(({ isFor, keys, name, place }) =>
    keys !== undefined && isFor(role) ? [{ keys, href: `/${place}`, what: name }] : []
  )
  return KeysHelp.render([...(forChanges(role) ? [{ keys: "n", href: "/new", what: "New sandbox" }] : []), ...goes])
}

/** The palette. `palette.js` adds sandboxes and the buttons of the page to its list. */
const palette = ({ visit }: Reader): Html => {
  const role = visit.place?.role ?? "member"
  const pages = [{ place: "new", name: "New sandbox", isFor: forChanges }, ...PLACES,
    ...SETTINGS.filter(({ place }) => place !== "settings")]
  const options = pages.filter(({ isFor }) => isFor(role)).map(({ name, place }) =>
    html`<a role="option" aria-selected="false" tabindex="-1" href="/${place}"><span class="what">${name}</span>
<span class="fine">Page</span></a>
`
  )
  return html`<dialog id="palette" aria-label="Search">
<form method="get" action="/sandboxes"><input id="palette-search" name="search" type="text" role="combobox" aria-expanded="true"
aria-controls="palette-list" aria-autocomplete="list" aria-label="Search sandboxes, pages and actions" maxlength="120"
placeholder="Search sandboxes, pages and actions" autocomplete="off" spellcheck="false"></form>
<div id="palette-list" role="listbox" aria-label="Found">
${options}</div>
</dialog>`
}

/** More would be a list to search, which the page of its own is better for. */
const MAX_IN_HEADER = 30

/** The grant that the page is of, and the way to another one. */
const grantSwitch = ({ csrf, grants, visit }: Reader, here: Place | undefined): Html | null => {
  const current = grants.find(({ id }) => id === visit.place?.grantId)
  if (current === undefined) return null
  if (grants.length === 1) return html`<span class="grant"><span class="unseen">Grant </span>${current.name}</span>`
  if (grants.length > MAX_IN_HEADER) {
    return html`<a class="grant" href="/grant?from=${here ?? ""}"><span class="unseen">Grant </span>${current.name}</a>`
  }
  const options = grants.map(({ id, name }) =>
    html`<option value="${id}"${id === current.id && html` selected`}>${name}</option>
`
  )
  return html`<form method="post" action="/grant" class="grant">${csrf}<input type="hidden" name="from" value="${here ?? ""}">
<label for="current-grant" class="unseen">Grant</label>
<select id="current-grant" name="grant">
${options}</select>
<button class="quiet">Switch<span class="unseen"> grant</span></button></form>`
}

const linkList = (links: ReadonlyArray<Link<Place>>, role: Role, here: Place | undefined): Html => {
  const items = links.filter(({ isFor }) => isFor(role)).map(({ name, place }) =>
    html`
      <li><a href="/${place}"${place === here && html` aria-current="page"`}>${name}</a></li>`
  )
  return html`<ul class="places">${items}
    </ul>`
}

const isSetting = (here: Place | undefined) => SETTINGS.some(({ place }) => place === here)

/** A page of the settings beside the list of all of them. */
const beside = ({ visit }: Reader, here: Place | undefined, body: Html): Html =>
  html`<div class="settings">
<nav aria-label="Settings">
${linkList(SETTINGS, visit.place?.role ?? "member", here)}
</nav>
<div>
${body}
</div>
</div>`

const navigation = (reader: Reader, here: Place | undefined, rail: Html | null): Html => {
  const { csrf, user, visit } = reader
  const role = visit.place?.role ?? "member"
  return html`
  <nav aria-label="Main">
    ${linkList(PLACES, role, isSetting(here) ? "settings" : here)}
    ${rail}
    <div class="reader">
      <a class="search" href="/sandboxes?search=#search" title="Ctrl K or ⌘ K" data-palette>Search</a>
      ${grantSwitch(reader, here)}
      <a class="name" href="/settings">${user.name}</a>
      <form method="post" action="/sign-out">${csrf}<button class="quiet">Sign out</button></form>
    </div>
  </nav>`
}

/** `reader`: the signed-in person; `null`: there is none. */
export const render = ({ body, place, rail, scripts = [], title }: Document, reader: Reader | null): Html => {
  const files = ["page.js", ...(reader === null ? [] : ["keys.js", "palette.js"]), ...scripts]
  const modules = files.map((script) =>
    html`<script type="module" src="${Assets.addressOf(script)}"></script>
`
  )
  // Otherwise they are loaded one after the other, as each script that imports one is read.
  const imported = [...Assets.importsOf(files)].map((address) =>
    html`<link rel="modulepreload" href="${address}">
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
${modules}${imported}</head>
<body${reader?.visit.place?.role === "viewer" && html` class="viewer"`}>
<a class="skip" href="#main">Skip to content</a>
<header>
  <p class="brand">Slipway</p>${reader !== null && navigation(reader, place, rail ?? null)}
</header>
<main id="main" tabindex="-1">
${reader !== null && isSetting(place) ? beside(reader, place, body) : body}
</main>
${reader !== null && keysHelp(reader)}
${reader !== null && palette(reader)}
</body>
</html>
`
}
