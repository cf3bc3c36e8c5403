/**
 * Compares the client's own types and addresses with the API's definition: `tsc` compares types, a test compares addresses.
 */
import { assert, describe, it } from "@effect/vitest"
import { Api } from "@slipway/api/Api"
import {
  type ApprovalDecision,
  type ApprovalRequest,
  type ArtifactList,
  type CheckpointPage,
  type CommandResult,
  type DirectoryQuery,
  type EventPage,
  type FileContent,
  type FileTree,
  type Fork,
  type MessagePage,
  type MessageResult,
  type NewMessage,
  type NewSandbox,
  type PageQuery,
  type PartnerPage,
  type PromptFile,
  type PublishRequest,
  type PullRequestStatus,
  type QuestionReply,
  type QuestionRequest,
  type RepoQuery,
  type Sandbox,
  type SandboxEvent,
  type SandboxPage,
  type SandboxQuery,
  type Setup,
  SlipwayClient,
  type TransientEvent
} from "@slipway/client"
import type * as Log from "@slipway/domain/sandbox/rules/SandboxEvent"
import type { QuestionRequest as Asked } from "@slipway/domain/sandbox/schema/Question"
import type { snapshotOf } from "@slipway/http/handlers/EventFrames"
import type { Schema } from "effect"
import { HttpApi, type HttpApiEndpoint, type HttpApiGroup } from "effect/http-api"
import { readFileSync } from "node:fs"

// ---------------------------------------------------------------------------------------------------------------
// Types

/** Expands interfaces, intersections and literals to plain fields. */
type Shape<T> = T extends object ? { [K in keyof T]: Shape<T[K]> } : T
/** Whether two types have the same fields: the same names, optional in both or in neither, of the same types. */
type Same<A, B> = (<T>() => T extends Shape<A> ? 1 : 2) extends (<T>() => T extends Shape<B> ? 1 : 2) ? true : false
type Holds<T extends true> = T

type Endpoint = HttpApiGroup.Endpoints<(typeof Api)["groups"][keyof (typeof Api)["groups"]]>
type Of<Name extends Endpoint["identifier"]> = HttpApiEndpoint.WithIdentifier<Endpoint, Name>
/** The encoded form of a schema, before JSON. */
type Encoded<S> = S extends Schema.toCodecJson<infer Inner> ? Inner["Encoded"] : never
type Reply<Name extends Endpoint["identifier"]> = Encoded<HttpApiEndpoint.Success<Of<Name>>>
/** The body of a reply that also has headers. */
type Told<T> = T extends { readonly body: infer Body } ? Body : never
type Body<Name extends Endpoint["identifier"]> = Encoded<HttpApiEndpoint.Payload<Of<Name>>>
/** Cursors and limits are digits in an address, and numbers in the client. */
type Query<Name extends Endpoint["identifier"]> = HttpApiEndpoint.Query<Of<Name>>["Type"]

export type Replies = [
  Holds<Same<SandboxPage, Reply<"listSandboxes">>>,
  Holds<Same<Sandbox, Told<Reply<"createSandbox">>>>,
  Holds<Same<Sandbox, Reply<"getSandbox">>>,
  Holds<Same<Setup, Reply<"getSetup">>>,
  Holds<Same<CommandResult, Reply<"terminateSandbox">>>,
  Holds<Same<CommandResult, Reply<"interruptTurn">>>,
  Holds<Same<CommandResult, Reply<"decideApproval">>>,
  Holds<Same<CommandResult, Reply<"answerQuestion">>>,
  Holds<Same<CommandResult, Reply<"restoreCheckpoint">>>,
  Holds<Same<CommandResult, Reply<"syncSandbox">>>,
  Holds<Same<CommandResult, Reply<"cancelMessage">>>,
  Holds<Same<Sandbox, Told<Reply<"forkSandbox">>>>,
  Holds<Same<MessageResult, Told<Reply<"sendMessage">>>>,
  Holds<Same<MessagePage, Reply<"listMessages">>>,
  Holds<Same<PromptFile, Reply<"getFile">>>,
  Holds<Same<PromptFile, Reply<"uploadFile">>>,
  Holds<Same<CheckpointPage, Reply<"listCheckpoints">>>,
  Holds<Same<ArtifactList, Reply<"listArtifacts">>>,
  Holds<Same<Omit<EventPage, "data">, Omit<Reply<"listEvents">, "data">>>,
  Holds<Same<FileTree, Reply<"listFiles">>>,
  Holds<Same<FileContent, Reply<"getFileContent">>>,
  Holds<Same<PullRequestStatus, Reply<"publishPullRequest">>>,
  Holds<Same<PullRequestStatus, Reply<"getPullRequest">>>,
  Holds<Same<PartnerPage, Reply<"listPartnerEvents">>>
]

export type Requests = [
  Holds<Same<NewSandbox, Body<"createSandbox">>>,
  Holds<Same<Fork, Body<"forkSandbox">>>,
  Holds<Same<ApprovalDecision, Body<"decideApproval">>>,
  Holds<Same<QuestionReply, Body<"answerQuestion">>>,
  Holds<Same<NewMessage, Body<"sendMessage">>>,
  Holds<Same<PublishRequest, Body<"publishPullRequest">>>,
  Holds<Same<SandboxQuery, Query<"listSandboxes">>>,
  Holds<Same<keyof PageQuery, keyof Query<"listMessages">>>,
  Holds<Same<keyof PageQuery, keyof Query<"listCheckpoints">>>,
  Holds<Same<keyof PageQuery, keyof Query<"listEvents">>>,
  Holds<Same<keyof PageQuery, keyof Query<"listPartnerEvents">>>,
  Holds<Same<DirectoryQuery, Query<"listFiles">>>,
  Holds<Same<{ readonly path: string } & RepoQuery, Query<"downloadFile">>>,
  Holds<Same<{ readonly path: string } & RepoQuery, Query<"getFileContent">>>,
  Holds<Same<RepoQuery, Query<"getPullRequest">>>
]

/** The fields around the `type` and `data` of an event. */
type Around = Omit<Reply<"listEvents">["data"][number], "type" | "data">
/** A stored event with its envelope. */
type Kept<E> = E extends unknown ? Omit<E, "turn_id"> & Omit<Around, "id"> & { readonly id: string } : never
type Frozen<T> = { readonly [K in keyof T]: K extends "turn" ? Readonly<T[K]> : T[K] }
type Snapshot = Extract<TransientEvent, { readonly type: "snapshot" }>

export type Events = [
  Holds<Same<SandboxEvent, Kept<typeof Log.SandboxEvent.Encoded>>>,
  Holds<Same<Omit<Snapshot, "type" | "data">, Omit<Around, "id" | "turn_id">>>,
  Holds<Same<Snapshot["data"], Frozen<ReturnType<typeof snapshotOf>>>>,
  Holds<Same<ApprovalRequest, typeof Log.ApprovalRequest.Encoded>>,
  Holds<Same<QuestionRequest, typeof Asked.Encoded>>
]

// ---------------------------------------------------------------------------------------------------------------
// Addresses

/** Methods of the client besides the API's operations; the last ones are of the internal API. */
const CONVENIENCES = ["approve", "deny", "snapshot", "deleteSandbox", "archiveSandbox", "archivedSandboxes", "getPullRequestReviews"]

describe("the names of operations", () => {
  const operations: Array<string> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      if (endpoint.path.startsWith("/api/public/v1/")) operations.push(endpoint.identifier)
    }
  })
  const names = [...operations, ...CONVENIENCES].sort()

  it("are those of the API's description in the promise client, and one deprecated name", () => {
    const own = Object.getOwnPropertyNames(SlipwayClient.prototype).filter((name) => name !== "constructor")
    assert.deepStrictEqual(own.sort(), [...names, "stream"].sort())
  })

  it("are the same in the Python client, as Python writes them", () => {
    const folder = new URL("../../../clients/python/src/slipway_client/", import.meta.url)
    const defined = ["_operations.py", "_client.py"].flatMap((file) =>
      Array.from(readFileSync(new URL(file, folder), "utf8").matchAll(/^ {4}def ([a-z]\w*)\(/gmu), ([, name = ""]) => name)
    )
    const snake = names.map((name) => name.replaceAll(/[A-Z]/gu, (letter) => `_${letter.toLowerCase()}`))
    assert.deepStrictEqual(defined.sort(), snake.sort())
  })

  it("are the same in the Go client, as Go writes them", () => {
    const folder = new URL("../../../clients/go/", import.meta.url)
    const defined = ["operations.go", "client.go", "stream.go"].flatMap((file) =>
      Array.from(readFileSync(new URL(file, folder), "utf8").matchAll(/^func \(client \*Client\) ([A-Z]\w*)\(/gmu), ([, name = ""]) => name)
    )
    const capital = names.map((name) => `${name.slice(0, 1).toUpperCase()}${name.slice(1)}`)
    // `String` and `GoString` keep the key out of texts.
    assert.deepStrictEqual(defined.sort(), [...capital, "GoString", "String"].sort())
  })
})

describe("the addresses of the promise client", () => {
  it("are those of every public endpoint, with every parameter", async () => {
    const asked: Array<string> = []
    const client = new SlipwayClient({
      baseUrl: "https://slipway.example/below/",
      apiKey: "key",
      fetch: async (input, init) => {
        const { origin, pathname, search } = new URL(String(input))
        assert.strictEqual(origin, "https://slipway.example")
        asked.push(`${init?.method} ${pathname}${search}`)
        return new Response(null, { status: 204 })
      }
    })
    const id = "c_abcdefghjkmn"
    const page = { after: 2, limit: 3 }
    await Promise.allSettled([
      client.createSandbox({ repos: [], prompt: "" }),
      client.listSandboxes({ after: "+/=", limit: 3, status: "running", repo: "acme/shop" }),
      client.getSandbox(id),
      client.getSetup(id),
      client.terminateSandbox(id),
      client.interruptTurn(id),
      client.restoreCheckpoint(id, 2),
      client.syncSandbox(id),
      client.forkSandbox(id, { prompt: "" }),
      client.approve(id, "a/1 ?#é"),
      client.answerQuestion(id, "q/1", { dismiss: true }),
      client.sendMessage(id, ""),
      client.cancelMessage(id, "t/1"),
      client.uploadFile(new Uint8Array(1)),
      client.getFile("file_1"),
      client.getFileBytes("file_1"),
      client.listMessages(id, page),
      client.listCheckpoints(id, page),
      client.listArtifacts(id),
      client.getArtifact(id, "a/b ?#.png"),
      client.listEvents(id, page),
      client.streamEvents(id).next(),
      client.listFiles(id, { directory: "a b", repo: "acme/shop" }),
      client.getFileContent(id, "a&b", { repo: "acme/shop" }),
      client.downloadFile(id, "a&b", { repo: "acme/shop" }),
      client.diffFiles(id, { from: 1, to: "working", path: "a&b", repo: "acme/shop" }),
      client.requestChanges(id, { checks: true }),
      client.resumeFeedback(id),
      client.publishPullRequest(id),
      client.getPullRequest(id, { repo: "acme/shop" }),
      client.listPartnerEvents({ after: "2", limit: 3 })
    ])
    const queries: Record<string, string> = {
      listSandboxes: "?after=%2B%2F%3D&limit=3&status=running&repo=acme%2Fshop",
      listMessages: "?after=2&limit=3",
      listCheckpoints: "?after=2&limit=3",
      listEvents: "?after=2&limit=3",
      listFiles: "?directory=a+b&repo=acme%2Fshop",
      getFileContent: "?path=a%26b&repo=acme%2Fshop",
      downloadFile: "?path=a%26b&repo=acme%2Fshop",
      diffFiles: "?from=1&to=working&path=a%26b&repo=acme%2Fshop",
      getPullRequest: "?repo=acme%2Fshop",
      listPartnerEvents: "?after=2&limit=3"
    }
    const defined: Array<string> = []
    HttpApi.reflect(Api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint: { identifier, method, path } }) => {
        if (!path.startsWith("/api/public/v1/")) return
        const filled = path.replace(":sandboxId", id).replace(":approvalId", "a%2F1%20%3F%23%C3%A9")
          .replace(":questionId", "q%2F1").replace(":messageId", "t%2F1").replace(":fileId", "file_1")
          .replace(":name", "a%2Fb%20%3F%23.png").replace(/\/$/u, "")
        defined.push(`${method} /below${filled}${queries[identifier] ?? ""}`)
      }
    })
    assert.deepStrictEqual(asked.toSorted(), defined.toSorted())
  })

  it("cannot be led astray by an id", async () => {
    const client = new SlipwayClient({ baseUrl: "https://slipway.example", apiKey: "key", fetch: () => assert.fail("it was sent") })
    for (const id of ["..", ".", ""]) {
      const [get, decide, stream] = await Promise.allSettled([client.getSandbox(id), client.approve("c_a", id),
        client.streamEvents(id).next()])
      for (const outcome of [get, decide, stream]) assert(outcome?.status === "rejected" && outcome.reason instanceof TypeError)
    }
  })
})
