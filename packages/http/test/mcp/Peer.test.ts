import { assert, describe, it } from "@effect/vitest"
import { SlipwayClient } from "@slipway/client"
import { read, RpcError } from "../../src/mcp/Message.ts"
import { CallsUnderWay, handle, MAX_CALLS } from "../../src/mcp/Peer.ts"
import { derivedKey } from "../../src/mcp/tools/SandboxTools.ts"
import { pageOf } from "../../src/mcp/tools/Shapes.ts"

const caller = { key: "k", client: "one" }

/** The answers of a peer whose API is this function. */
const peer = (fetch: typeof globalThis.fetch, calls = new CallsUnderWay()) => {
  const client = new SlipwayClient({ baseUrl: "https://slipway.example", apiKey: "sbx_live_key", fetch, retries: 0 })
  const defects: Array<unknown> = []
  const ask = async (method: string, params: object, id: number | null = 1) => {
    const text = await handle(
      {
        calls,
        caller,
        client,
        message: read(JSON.stringify({ jsonrpc: "2.0", ...(id === null ? {} : { id }), method, params })),
        send: () => {},
        signal: new AbortController().signal
      },
      { serverVersion: "1", onDefect: (error) => void defects.push(error) }
    )
    return text === null ? null : JSON.parse(text)
  }
  return { ask, defects }
}

const replying = (body: object) => () => Promise.resolve(Response.json(body))

describe("the calls under way", () => {
  it("are limited for each key, and each has an id of its own", () => {
    const calls = new CallsUnderWay()
    assert.isNotNull(calls.begin(caller, 0))
    assert.isNull(calls.begin(caller, 0))
    // The text "0" is another id than the number.
    assert.isNotNull(calls.begin(caller, "0"))
    for (let id = 1; id < MAX_CALLS - 1; id++) assert.isNotNull(calls.begin({ ...caller, client: `client ${id}` }, id))
    assert.isNull(calls.begin({ ...caller, client: "two" }, 0))
    assert.isNotNull(calls.begin({ ...caller, key: "another" }, 0))
    calls.end(caller, 0)
    assert.isNotNull(calls.begin({ ...caller, client: "two" }, 0))
  })

  it("are cancelled by their own client alone", () => {
    const calls = new CallsUnderWay()
    const call = calls.begin(caller, 7)
    calls.cancel({ ...caller, client: "two" }, 7)
    calls.cancel({ ...caller, key: "another" }, 7)
    calls.cancel(caller, "7")
    assert.isFalse(call?.signal.aborted)
    calls.cancel(caller, 7)
    assert.isTrue(call?.signal.aborted)
  })
})

describe("a failure", () => {
  it("of the API is the result of the tool; any other one is reported and says nothing to the client", async () => {
    const refusing = peer(() =>
      Promise.resolve(Response.json({ error: { code: "not_found", message: "No such sandbox." } }, { status: 404 }))
    )
    const params = { name: "terminate_sandbox", arguments: { sandboxId: "c_aaaaaaaaaaaa" } }
    const { result } = await refusing.ask("tools/call", params)
    assert.deepStrictEqual(result, { isError: true, content: [{ type: "text", text: "No such sandbox. (not_found)" }] })
    const broken = peer(replying({}))
    assert.deepInclude(await broken.ask("tools/call", { ...params, name: "list_sandboxes", arguments: {} }), {
      error: { code: -32_603, message: "Something went wrong on our side." }
    })
    assert.lengthOf(broken.defects, 1)
  })

  it("of the protocol names the unknown tool or the missing parameter", async () => {
    const { ask } = peer(replying({}))
    assert.deepInclude(await ask("tools/call", { name: "rm" }), { error: { code: -32_602, message: "There is no tool rm." } })
    assert.deepInclude(await ask("resources/read", {}), { error: { code: -32_602, message: "uri is a text." } })
    assert.isNull(await ask("notifications/initialized", {}, null))
  })
})

describe("a message", () => {
  it("is refused when it is not JSON-RPC 2.0", () => {
    for (
      const text of ["", "1", "[]", "{}", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`,
        `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`]
    ) {
      assert.throws(() => read(text), RpcError)
    }
  })
})

describe("a page of a text", () => {
  it("has every character once, and no half of one", () => {
    const text = "a😀b😀😀c"
    for (let limit = 1; limit <= text.length; limit++) {
      let all = ""
      for (let offset: number | null = 0; offset !== null;) {
        const page: ReturnType<typeof pageOf> = pageOf(text, { offset, limit })
        assert.isTrue(page.text.isWellFormed(), `${limit} at ${offset}`)
        all += page.text
        offset = page.nextOffset
      }
      assert.strictEqual(all, text)
    }
    assert.deepStrictEqual(pageOf("abc", { offset: 9 }), { text: "", totalCharacters: 3, nextOffset: null })
  })
})

describe("the derived key of a creation", () => {
  it("is the same whatever the order of the fields, and another one for other values", () => {
    const one = derivedKey({ prompt: "x", metadata: { a: "1", b: "2" }, repos: [{ fullName: "acme/shop", ref: "main" }] })
    assert.strictEqual(derivedKey({ repos: [{ ref: "main", fullName: "acme/shop" }], metadata: { b: "2", a: "1" }, prompt: "x" }), one)
    assert.notStrictEqual(derivedKey({ prompt: "y", metadata: { a: "1", b: "2" }, repos: [{ fullName: "acme/shop", ref: "main" }] }), one)
    assert.match(one, /^mcp-[0-9a-f]{64}$/u)
  })
})
