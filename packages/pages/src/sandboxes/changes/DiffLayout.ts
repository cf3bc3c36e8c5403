/** The choice between a unified and a split diff. The address names it; a cookie keeps it for addresses that do not. */
import * as SessionCookie from "@slipway/http/server/access/SessionCookie"
import { basePathOf, Settings } from "@slipway/http/server/Settings"
import { Effect } from "effect"
import { HttpServerRequest } from "effect/http"
import { html, type Html } from "../../html/Html.ts"
import { Refused } from "../../layout/Refused.ts"
import type { Layout } from "./DiffTable.ts"

const NAMES: Readonly<Record<Layout, string>> = { unified: "Unified", split: "Split" }

const layoutOf = (given: string): Layout | null => given === "unified" || given === "split" ? given : null

/** Seconds that a browser keeps it: 400 days, the longest that browsers allow. */
const MAX_AGE = 400 * 24 * 60 * 60

/** The layout of one page. */
export interface Chosen {
  readonly layout: Layout
  /** The part of the address that named it. */
  readonly fields: { readonly layout?: Layout }
  /** The cookie, if the address names another layout than the browser sent. */
  readonly headers: Readonly<Record<string, string>>
}

/** Reads the choice of a request. */
export const make = Effect.gen(function*() {
  const base = basePathOf((yield* Settings).publicUrl)
  const name = SessionCookie.named("diff", base)
  const { path } = SessionCookie.attributes(base)
  return Effect.fnUntraced(function*({ searchParams }: URL) {
    const kept = layoutOf((yield* HttpServerRequest.HttpServerRequest).cookies[name] ?? "")
    const given = searchParams.get("layout")
    if (given === null) return { layout: kept ?? "unified", fields: {}, headers: {} } satisfies Chosen
    const layout = layoutOf(given)
    if (layout === null) return yield* Refused.bad("The layout is unified or split.")
    const cookie = `${name}=${layout}; Max-Age=${MAX_AGE}; Path=${path}; HttpOnly; Secure; SameSite=Lax`
    const chosen: Chosen = { layout, fields: { layout }, headers: layout === kept ? {} : { "set-cookie": cookie } }
    return chosen
  })
})

/** `here`: the address of the page, with or without a layout. Hidden on phones, where every diff is unified. */
export const links = (chosen: Layout, here: string): Html => {
  const [path = "", query] = here.split("?")
  const items = (["unified", "split"] as const).map((layout) => {
    const fields = new URLSearchParams(query)
    fields.set("layout", layout)
    return html`
<li><a href="${path}?${fields.toString()}"${layout === chosen && html` aria-current="true"`}>${NAMES[layout]}</a></li>`
  })
  return html`<nav class="layouts" aria-label="Diff layout"><ul class="places">${items}
</ul></nav>`
}
