/** Previews in a browser, on names below `localhost`: servers on the machine, and in boxes with networks of their own. */
import { assert, describe, layer, type Vitest } from "@effect/vitest"
import { freePort } from "@slipway/embedded-postgres/testing/FreePort"
import { Context, Effect, Layer } from "effect"
import { spawnSync } from "node:child_process"
import { createRequire } from "node:module"
import path from "node:path"
import type { Page } from "playwright-core"
import { folder } from "../commands/SlipwayProcess.ts"
import { hostOf, repository, sandboxOf, started } from "../previews/Previewed.ts"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

const VITE = path.join(path.dirname(createRequire(import.meta.url).resolve("vite/package.json")), "bin/vite.js")
/** Boxes see this folder, with Vite and its packages. */
const PACKAGES = path.dirname(path.dirname(path.dirname(VITE)))

class Sandbox extends Context.Service<Sandbox, { readonly id: string; readonly vite: number; readonly plain: number }>()(
  "slipway/test/PreviewedSandbox"
) {}

const FILES = {
  "index.html": "<!doctype html><title>App</title><h1>App</h1><p id=\"shown\"></p><script type=\"module\" src=\"/main.js\"></script>",
  "main.js": "import { text } from './text.js'\nconst show = (said) => document.querySelector('#shown').textContent = said\nshow(text)\n" +
    "import.meta.hot?.accept('./text.js', (module) => show(module.text))\n",
  "text.js": "export const text = 'before'\n",
  "vite.config.js": "export default {}\n"
}

/** A sandbox in which Vite serves its tree, and a plain server. */
const service = (settings: Readonly<Record<string, string>>) =>
  Layer.effect(
    Sandbox,
    Effect.gen(function*() {
      const { server } = yield* Browser
      const [vite, plain] = yield* Effect.all([freePort, freePort])
      const environment = JSON.stringify({ ports: [{ port: vite, label: "Vite" }, plain] })
      yield* repository(yield* folder, "app", { ...FILES, ".slipway/environment.json": environment })
      const programs = [`node ${VITE} --host 127.0.0.1 --port ${vite} --strictPort`, `node server.mjs ${plain}`]
      return { id: yield* sandboxOf(server, "app", programs.map(started).join(" ")), vite, plain }
    })
  ).pipe(Layer.provideMerge(Browser.layer(settings)))

/** Opens the preview by the form on its page, until its server listens. */
const open = async (page: Page, id: string, port: number, isThere: (page: Page) => Promise<boolean>) => {
  await page.goto(`/sandboxes/${id}/preview`)
  await page.getByRole("button", { name: `port ${port}` }).click()
  while (!(await isThere(page))) {
    await page.waitForTimeout(100)
    await page.reload()
  }
}

const tests = (it: Vitest.MethodsNonLive<Layer.Success<ReturnType<typeof service>>>) => {
  it.effect("show the pages of Vite, which replaces a module that the agent changes without loading the page again", () =>
    Effect.gen(function*() {
      const { server, visit } = yield* Browser
      const { id, vite } = yield* Sandbox
      const { send } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto(`/sandboxes/${id}/preview`)
        await inspect(page, "previews")
        await open(page, id, vite, async (opened) => await opened.title() === "App")
        assert.strictEqual(new URL(page.url()).host, hostOf(server, id, vite))
        assert.strictEqual(new URL(page.url()).search, "")
        await page.locator("#shown", { hasText: "before" }).waitFor()
        await page.evaluate(() => Object.assign(window, { isSame: true }))
        await send(id, "[[write path=text.js content=export const text = 'after']]")
        await page.locator("#shown", { hasText: "after" }).waitFor()
        assert.isTrue(await page.evaluate(() => "isSame" in window))
      }, { refused: [404, 502] })
    }))

  it.effect("speak WebSocket with their server", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { id, plain } = yield* Sandbox
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await open(page, id, plain, async (opened) => !(await opened.content()).includes("No server"))
        const said = await page.evaluate(() =>
          new Promise((resolve, reject) => {
            const socket = new WebSocket(`ws://${location.host}/ws`)
            socket.onopen = () => socket.send("hello")
            socket.onmessage = ({ data }) => resolve(data)
            socket.onerror = reject
          })
        )
        assert.strictEqual(said, "hello")
      }, { refused: [404, 502] })
    }))

  it.effect("attack neither the service nor another preview: no cookie, no answer, no frame, no window", () =>
    Effect.gen(function*() {
      const { server, visit } = yield* Browser
      const { id, plain, vite } = yield* Sandbox
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await open(page, id, vite, async (opened) => await opened.title() === "App")
        await open(page, id, plain, async (opened) => !(await opened.content()).includes("No server"))
        const targets = {
          service: server.url,
          local: `http://localhost:${new URL(server.url).port}`,
          other: `http://${hostOf(server, id, vite)}`
        }
        const found = await page.evaluate(async ({ local, other, service }) => {
          const answer = async (address: string, options: RequestInit = {}) => {
            try {
              return (await fetch(address, { credentials: "include", ...options })).status
            } catch {
              return "blocked"
            }
          }
          const framed = (address: string) =>
            new Promise<boolean>((resolve) => {
              const frame = document.createElement("iframe")
              frame.onload = () => {
                try {
                  resolve(frame.contentDocument?.location.href !== "about:blank" && frame.contentDocument !== null)
                } catch {
                  resolve(false)
                }
              }
              frame.src = address
              document.body.append(frame)
            })
          document.cookie = "__Host-slipway_session=tossed; domain=localhost; path=/"
          return {
            cookies: document.cookie,
            opener: window.opener,
            fetches: await Promise.all([service, local, other].map((address) => answer(`${address}/`))),
            posts: await Promise.all([service, local].map((address) => answer(`${address}/sandboxes`, { method: "POST" }))),
            frames: await Promise.all([service, other].map(framed))
          }
        }, targets)
        assert.deepStrictEqual(found, {
          cookies: "",
          opener: null,
          fetches: ["blocked", "blocked", "blocked"],
          posts: ["blocked", "blocked"],
          frames: [false, false]
        })
        // Still signed in.
        await page.goto("/sandboxes")
        await page.getByRole("navigation", { name: "Main" }).waitFor()
      }, { refused: [401, 403, 404, 405, 502], drops: true, expected: /CORS policy|frame-ancestors 'none'/u })
    }))

  it.effect("register no service worker, which would answer in place of the server and of the exchange of tickets", () =>
    Effect.gen(function*() {
      const { server, visit } = yield* Browser
      const { id, plain } = yield* Sandbox
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await open(page, id, plain, async (opened) => !(await opened.content()).includes("No server"))
        const found = await page.evaluate(async () => {
          // Now the browser has the script.
          for (const script of ["/worker.js", "/.slipway/worker.js"]) await (await fetch(script)).text()
          const attempts: ReadonlyArray<readonly [string, RegistrationOptions]> = [
            ["/worker.js", { scope: "/" }],
            ["/worker.js", { scope: "/", updateViaCache: "all" }],
            ["/worker.js", { scope: "/", type: "module", updateViaCache: "all" }],
            ["/.slipway/worker.js", { scope: "/" }],
            ["/.slipway/worker.js", { scope: "/.slipway/preview", updateViaCache: "all" }]
          ]
          const results: Array<string> = []
          for (const [script, options] of attempts) {
            results.push(await navigator.serviceWorker.register(script, options).then(() => "registered", () => "refused"))
          }
          return { results: [...new Set(results)], registrations: (await navigator.serviceWorker.getRegistrations()).length }
        })
        assert.deepStrictEqual(found, { results: ["refused"], registrations: 0 })
        // Through the exchange of a ticket again.
        await page.goto(`/sandboxes/${id}/preview`)
        await page.getByRole("button", { name: `port ${plain}` }).click()
        await page.waitForURL(`http://${hostOf(server, id, plain)}/`)
        assert.include(await page.content(), "localhost")
        assert.isNull(await page.evaluate(() => navigator.serviceWorker.controller))
      }, { refused: [401, 403, 404, 502], expected: /bad HTTP response code \(40[13]\)/u, drops: true })
    }))
}

layer(service({}), { excludeTestServices: true })("previews in a browser", tests)

const hasBoxes = spawnSync("bwrap", ["--version"]).status === 0
const boxed = service({ SLIPWAY_ISOLATION: "bubblewrap", SLIPWAY_EGRESS_ALLOW: "registry.npmjs.org:443", SLIPWAY_TOOLCHAINS: PACKAGES })

describe.skipIf(!hasBoxes)("previews of a box in a browser (needs bubblewrap: apt-get install bubblewrap)", () => {
  layer(boxed, { excludeTestServices: true })(tests)
})
