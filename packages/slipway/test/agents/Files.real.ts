/** Real agents in sandboxes of the real service, with files in their prompts: what is in the box, and what the model gets. */
import { assert, it } from "@effect/vitest"
import { pictureBytes } from "@slipway/testing/contracts/sandbox/AgentRuntimeContract"
import { Effect, Layer } from "effect"
import { randomUUID } from "node:crypto"
import { repository, until } from "../commands/SlipwayProcess.ts"
import { agents, AgentService, start } from "./AgentService.ts"

const service = Layer.effect(AgentService, start({ "acme/shop": (inside) => repository(inside) }))

interface Replied {
  readonly status: number
  readonly said: {
    readonly id?: string
    readonly error?: { readonly code: string }
    readonly data?: ReadonlyArray<{ readonly type: string; readonly data: { readonly [name: string]: unknown } }>
  }
}

interface Request {
  readonly headers: Readonly<Record<string, string>>
  /** It is posted. */
  readonly body: string | Uint8Array<ArrayBuffer>
}

/** One request, which may be repeated: again while the store of a busy machine is away. */
const ask = Effect.fnUntraced(function*(address: string, request?: Request) {
  const { key, url } = (yield* AgentService).server
  const reply = Effect.promise(async (): Promise<Replied> => {
    const reply = await fetch(`${url}/api/public/v1${address}`, {
      ...(request === undefined ? {} : { method: "POST", body: request.body }),
      headers: { authorization: `Bearer ${key}`, ...request?.headers }
    })
    return { status: reply.status, said: (await reply.json()) as Replied["said"] }
  })
  return yield* until(reply, ({ status }) => status !== 503)
})

const made = ({ said, status }: Replied) => {
  assert.strictEqual(status, 201, JSON.stringify(said))
  return said.id ?? ""
}

const upload = (name: string, body: Uint8Array<ArrayBuffer>) =>
  Effect.map(ask("/files", { headers: { "content-disposition": `attachment; filename="${name}"` }, body }), made)

const create = (name: string, prompt: string, file: string) =>
  ask("/sandboxes", {
    headers: { "content-type": "application/json", "idempotency-key": randomUUID() },
    body: JSON.stringify({ model: `test/${name}`, repos: [{ fullName: "acme/shop" }], prompt, files: [{ id: file }] })
  })

/** Runs one prompt with one file, and returns the requests to the model. */
const prompted = Effect.fnUntraced(function*(name: string, prompt: string, file: string) {
  const id = made(yield* create(name, prompt, file))
  const ends = (log: Replied) => (log.said.data ?? []).filter(({ type }) => type === "turn.completed")
  const log = yield* until(ask(`/sandboxes/${id}/events?after=0`), (log) => ends(log).length > 0)
  assert.deepStrictEqual(ends(log).map(({ data }) => data["state"]), ["succeeded"], JSON.stringify(log))
  const requests = (yield* AgentService).models.get(name)?.requests ?? []
  return requests.filter(({ call }) => call.prompts.at(-1)?.includes(prompt) === true)
})

/** The images of a request, in the forms of all three model APIs. */
const imagesIn = (body: unknown): ReadonlyArray<{ readonly mediaType: string; readonly bytes: Buffer }> => {
  if (typeof body === "string") {
    const [, mediaType, data] = /^data:([^;,]+);base64,(.*)$/su.exec(body) ?? []
    return mediaType === undefined || data === undefined ? [] : [{ mediaType, bytes: Buffer.from(data, "base64") }]
  }
  if (typeof body !== "object" || body === null) return []
  const { data, media_type } = body as { readonly data?: unknown; readonly media_type?: unknown }
  return typeof data === "string" && typeof media_type === "string"
    ? [{ mediaType: media_type, bytes: Buffer.from(data, "base64") }]
    : Object.values(body).flatMap(imagesIn)
}

it.layer(service, { excludeTestServices: true })("files of a prompt", (it) => {
  for (const { images, name } of agents) {
    it.effect(`${name} reads the file of its prompt in its home`, () =>
      Effect.gen(function*() {
        const content = `four chairs, näh dem Fenster, for ${name}`
        const file = yield* upload("notes of 4.txt", new TextEncoder().encode(`${content}\n`))
        const requests = yield* prompted(name, `[[shell cat "$HOME/files/notes of 4.txt"]] [[say read]]`, file)
        assert.match(requests[0]?.call.prompts.at(-1) ?? "", /^- \/\S+\/files\/notes of 4\.txt \([^)]*, \d+ bytes\)$/mu)
        assert.include(requests.at(-1)?.call.results.join("\n"), content)
      }))

    it.effect(
      images ? `${name} gives its model the very image of its prompt` : `${name} gets no prompt with an image, because its model would not`,
      () =>
        Effect.gen(function*() {
          const file = yield* upload("a chair.png", new Uint8Array(pictureBytes))
          if (!images) {
            const { said, status } = yield* create(name, "[[say seen]]", file)
            return assert.deepStrictEqual([status, said.error?.code], [400, "files_unsupported"])
          }
          const requests = yield* prompted(name, "[[say seen]]", file)
          assert.isNotEmpty(requests)
          for (const { body } of requests) {
            assert.deepStrictEqual(
              imagesIn(body).map(({ bytes, mediaType }) => [mediaType, bytes.toString("base64")]),
              [["image/png", Buffer.from(pictureBytes).toString("base64")]]
            )
          }
        })
    )
  }
})
