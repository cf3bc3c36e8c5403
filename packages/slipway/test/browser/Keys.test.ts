import { assert, layer } from "@effect/vitest"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { html } from "@slipway/pages/html/Html"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Page } from "playwright-core"
import { Browser, inspect, keysOf, linkFor, memberNamed, signIn } from "./Browser.ts"

/** How the service answers to a key. */
const statusOf = async (page: Page, key: string) => {
  const { origin } = new URL(page.url())
  return (await fetch(`${origin}/api/public/v1/sandboxes`, { headers: { authorization: `Bearer ${key}` } })).status
}

const headingOf = (page: Page) => page.getByRole("heading", { level: 1 }).innerText()

const fill = async (page: Page, name: string) => {
  await page.goto("/keys")
  await page.getByLabel("Name").fill(name)
}

const mint = async (page: Page, name: string) => {
  await fill(page, name)
  await page.getByRole("button", { name: "Create key" }).click()
  const secret = page.getByLabel("API key")
  await secret.waitFor()
  return await secret.inputValue()
}

const countOf = Effect.flatMap(AccessStore, ({ listKeys }) => Effect.map(listKeys(null), ({ length }) => length))

layer(Browser.layer(), { excludeTestServices: true })("the key page", (it) => {
  it.effect("lets a person in by the link that the service prints, which leaves the address at once and works once", () =>
    Effect.gen(function*() {
      const { server, visit } = yield* Browser
      const link = /http\S+\/sign-in#\S+/u.exec(server.output())?.[0] ?? ""
      yield* visit(async (page) => {
        await page.goto(link)
        await page.waitForURL("**/sign-in")
        assert.strictEqual(await page.getByRole("textbox", { name: "Code" }).inputValue(), link.split("#")[1])
        await inspect(page, "sign-in")
        await page.getByRole("button", { name: "Sign in", exact: true }).click()
        await page.waitForURL("**/sandboxes")
        await page.goto("/keys")
        assert.strictEqual(await headingOf(page), "Keys")
        await inspect(page, "keys-first")
        await page.goto("/sign-in")
        await page.getByText("You are signed in as").waitFor()
      })
      yield* visit(async (page) => {
        await page.goto(link)
        await page.getByRole("button", { name: "Sign in", exact: true }).click()
        await page.getByRole("alert").waitFor()
        await inspect(page, "sign-in-refused")
      }, { refused: [400] })
    }))

  it.effect("shows a new key once, for copying, and never again", () =>
    Effect.gen(function*() {
      const { server, visit } = yield* Browser
      const link = yield* linkFor()
      const before = yield* countOf
      yield* visit(async (page, context) => {
        await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: server.url })
        await signIn(page, link)
        const key = await mint(page, "laptop")
        await inspect(page, "minted")
        await page.getByRole("button", { name: "Copy" }).click()
        await page.getByText("Copied").waitFor()
        assert.strictEqual(await page.evaluate(() => navigator.clipboard.readText()), key)
        assert.strictEqual(await statusOf(page, key), 200)

        const isGone = async () =>
          assert.notInclude(
            await page.evaluate(() =>
              document.documentElement.outerHTML + Array.from(document.querySelectorAll("input"), ({ value }) => value).join()
            ),
            key
          )
        await page.reload()
        assert.strictEqual(await headingOf(page), "Keys")
        await isGone()
        const other = await mint(page, "desktop")
        // As when the browser keeps the page for going back.
        await page.evaluate(() => dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true })))
        assert.notInclude(await page.content(), other)
        await page.getByRole("link", { name: "Done" }).click()
        await page.getByRole("rowheader", { name: "desktop" }).waitFor()
        await page.goBack()
        assert.notInclude(await page.content(), other)
        await page.goForward()
        assert.notInclude(await page.content(), other)
        await isGone()
        await page.goto("/keys")
        await inspect(page, "keys")
      })
      assert.strictEqual(yield* countOf, before + 2)
    }))

  it.effect("revokes a key after asking, and it is refused from then on", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const key = await mint(page, "to be revoked")
        await page.getByRole("link", { name: "Done" }).click()
        await page.getByRole("link", { name: "Revoke to be revoked" }).click()
        await inspect(page, "revoke")
        assert.strictEqual(await statusOf(page, key), 200)
        await page.getByRole("link", { name: "Cancel" }).click()
        await page.getByRole("link", { name: "Revoke to be revoked" }).click()
        await page.getByRole("button", { name: "Revoke key" }).click()
        await page.getByRole("status").filter({ hasText: "Key revoked" }).waitFor()
        await inspect(page, "keys-revoked")
        assert.strictEqual(await statusOf(page, key), 401)
      })
    }))

  it.effect("asks who comes back too late to sign in, and leads on to where they were", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const sql = yield* SqlClient.SqlClient
      const access = yield* Access
      const owner = yield* (yield* MemberStore).owner
      const { record } = yield* access.createKey({ grant: "default", label: "kept", scopes: [], kind: "live", userId: owner.userId })
      const [first, second] = [yield* linkFor(), yield* linkFor()]
      const age = Effect.runPromiseWith(yield* Effect.context<never>())
      yield* visit(async (page) => {
        await signIn(page, first)
        const address = `/keys/${record.id}/revoke`
        await page.goto(address)
        await age(sql`UPDATE sessions SET created_at = created_at - interval '13 hours', last_seen_at = last_seen_at - interval '13 hours'`)
        await page.goto(address)
        assert.strictEqual(await headingOf(page), "Sign in")
        await page.getByRole("textbox", { name: "Code" }).fill(second)
        await page.getByRole("button", { name: "Sign in", exact: true }).click()
        await page.waitForURL(`**${address}`)
        assert.strictEqual(await headingOf(page), "Revoke the key kept?")
      })
    }))

  it.effect("signs out everywhere, in other browsers too", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      yield* memberNamed("ada")
      const [here, there] = [yield* linkFor("ada"), yield* linkFor("ada")]
      const again = Effect.runPromiseWith(yield* Effect.context<never>())
      yield* visit(async (page) => {
        await signIn(page, here)
        await again(visit(async (other) => {
          await signIn(other, there)
          await page.goto("/settings")
          await page.getByRole("button", { name: "Sign out everywhere" }).click()
          await page.waitForURL("**/sign-in")
          await other.reload()
          assert.strictEqual(await headingOf(other), "Sign in")
        }))
      })
    }))

  it.effect("tells who is not approved what to ask for", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const members = yield* Members
      yield* members.add(null, "linus", "member")
      const link = yield* linkFor("linus")
      yield* visit(async (page) => {
        await signIn(page, link)
        assert.strictEqual(await headingOf(page), "You are not approved yet")
        await page.getByText("slipway users approve linus").waitFor()
        await inspect(page, "not-approved")
        await page.getByRole("button", { name: "Sign out" }).click()
        await page.waitForURL("**/sign-in")
      }, { refused: [403] })
    }))

  it.effect("does all of it without scripts", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      yield* memberNamed("grace")
      const link = yield* linkFor("grace")
      yield* visit(async (page) => {
        await signIn(page, link)
        const key = await mint(page, "without scripts")
        assert.strictEqual(await page.getByRole("button", { name: "Copy" }).count(), 0)
        assert.strictEqual(await statusOf(page, key), 200)
        await page.getByRole("link", { name: "Done" }).click()
        await page.getByRole("link", { name: "Revoke without scripts" }).click()
        await page.getByRole("button", { name: "Revoke key" }).click()
        await page.getByText("Key revoked").waitFor()
        assert.strictEqual(await statusOf(page, key), 401)
        await page.getByRole("link", { name: "Account" }).click()
        await page.getByRole("button", { name: "Sign out here" }).click()
        assert.strictEqual(await headingOf(page), "Sign in")
      }, { options: { javaScriptEnabled: false } })
    }))

  it.effect("can be used with the keyboard alone", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        const { keyboard } = page
        const { focused, tabTo } = keysOf(page)
        await page.goto(link)
        // The code is in its field: only the button is left to press.
        await page.waitForFunction(() => document.activeElement?.id === "sign-in")
        await keyboard.press("Enter")
        await page.waitForURL("**/sandboxes")
        await tabTo("Settings")
        await keyboard.press("Enter")
        await page.waitForURL("**/settings")
        await tabTo("Keys")
        await keyboard.press("Enter")
        await page.waitForURL("**/keys")
        await keyboard.press("Tab")
        assert.strictEqual(await focused(), "Skip to content")
        await keyboard.press("Enter")
        assert.strictEqual(await focused(), "main")
        await tabTo("name")
        await keyboard.type("by hand")
        await tabTo("scope-webhooks")
        await keyboard.press("Space")
        await tabTo("expires")
        await keyboard.press("ArrowDown")
        await tabTo("Create key")
        await keyboard.press("Enter")
        await page.getByLabel("API key").waitFor()
        await tabTo("secret")
        await tabTo("copy")
        await tabTo("Done")
        await keyboard.press("Enter")
        const row = page.getByRole("row").filter({ hasText: "by hand" })
        await row.waitFor()
        assert.include(await row.innerText(), "sandboxes, webhooks")
      })
    }))

  it.effect("shows the other pages to everybody, too", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      yield* (yield* Access).createGrant("second")
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/grant")
        await inspect(page, "grant")
        await page.getByLabel("Grant to work in").selectOption("second")
        await page.getByRole("button", { name: "Change grant" }).click()
        await page.getByText("Grant switched.").waitFor()
        await inspect(page, "settings")
        for (const name of ["members", "audit"]) {
          await page.goto(`/${name}`)
          await inspect(page, name)
        }
        await page.goto("/keys/none/revoke")
        await inspect(page, "not-found")
        await page.goto("/sign-out")
        await inspect(page, "wrong-method")
      }, { refused: [404, 405] })
    }))

  it.effect("switches the grant from the header of any page, by keyboard and without scripts too", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      yield* (yield* Access).createGrant("a second grant, with a name that is longer than a header has room for")
      yield* (yield* Access).createGrant("third")
      for (const javaScriptEnabled of [true, false]) {
        const link = yield* linkFor()
        yield* visit(async (page) => {
          await signIn(page, link)
          await page.goto("/webhooks")
          const current = page.getByRole("banner").getByLabel("Grant", { exact: true })
          await current.selectOption("third")
          await page.getByRole("button", { name: "Switch grant" }).focus()
          await page.keyboard.press("Enter")
          await page.waitForURL("**/webhooks")
          await page.getByRole("option", { name: "third", selected: true }).first().waitFor({ state: "attached" })
          if (javaScriptEnabled) {
            await current.selectOption({ label: "a second grant, with a name that is longer than a header has room for" })
            await page.getByRole("button", { name: "Switch grant" }).click()
            await page.goto("/keys")
            await inspect(page, "grant-in-header")
          }
        }, { options: { javaScriptEnabled } })
      }
    }))

  it.effect("takes no text for markup, as the browser reads it", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const texts = ["<script>alert(1)</script>", "\"'`><img src=x onerror=alert(1)>", "&lt;&amp;&#13;", "a\rb\r\nc\n",
        "</p></title></textarea>-->", "é😀\ud800", "${x}"]
      yield* visit(async (page) => {
        for (const text of texts) {
          const markup = html`<p title="${text}">${text}</p>`.toString()
          const read = await page.evaluate((markup) => {
            const { body } = new DOMParser().parseFromString(markup, "text/html")
            return {
              children: body.children.length,
              content: body.firstElementChild?.textContent,
              title: body.firstElementChild?.getAttribute("title")
            }
          }, markup)
          assert.deepStrictEqual(read, { children: 1, content: visible(text.toWellFormed()), title: visible(text.toWellFormed()) })
        }
      })
    }))
})
