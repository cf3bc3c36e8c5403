import { assert, describe, it } from "@effect/vitest"
import { Blobs, nameOf } from "@slipway/domain/files/ports/Blobs"
import { isMissing, keyOf, putBytes, read } from "@slipway/testing/contracts/files/BlobsContract"
import { Effect, Exit, Layer, Logger, Redacted, Stream } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as BlobsS3 from "../../src/blobs/s3/BlobsS3.ts"
import * as S3Address from "../../src/blobs/s3/S3Address.ts"
import * as S3Client from "../../src/blobs/s3/S3Client.ts"
import * as S3Credentials from "../../src/blobs/s3/S3Credentials.ts"
import * as S3Server from "../../testing/S3Server.ts"
import { addressOf, credentials, pauses } from "./Places.ts"

const MEBIBYTE = 2 ** 20
const content = "the content"
const key = keyOf(content, "grant")
/** More than is held in memory. */
const large = new Uint8Array(9 * MEBIBYTE).fill(5)
const largeKey = keyOf(large, "grant")
const inMebibytes = (bytes: Uint8Array) =>
  Stream.rechunk(
    Stream.fromIterable(
      Array.from({ length: Math.ceil(bytes.length / MEBIBYTE) }, (_, i) => bytes.subarray(i * MEBIBYTE, (i + 1) * MEBIBYTE))
    ),
    1
  )

type Given = Partial<S3Client.Options> & { readonly prefix?: string; readonly server?: Parameters<typeof S3Server.make>[0] }

/** On a server of its own; `said`: what was logged. */
const on = <A, E>(
  use: (server: S3Server.S3Server, said: ReadonlyArray<string>) => Effect.Effect<A, E, Blobs>,
  { prefix, server: keys, ...options }: Given = {}
) =>
  Effect.scoped(Effect.gen(function*() {
    const server = yield* S3Server.make(keys)
    const said: Array<string> = []
    const logger = Logger.make(({ message }) => void said.push(String(message)))
    const layer = BlobsS3.layer({ address: addressOf(server, prefix), credentials: Effect.succeed(credentials), pauses, ...options })
    return yield* use(server, said).pipe(Effect.provide(Layer.merge(layer, Logger.layer([logger]))))
  }))
const live = (states: string, use: Parameters<typeof on>[0], given?: Given) => it.live(states, () => Effect.asVoid(on(use, given)))
const tagOf = <R>(refused: Effect.Effect<unknown, { readonly _tag: string }, R>) => Effect.map(Effect.flip(refused), ({ _tag }) => _tag)
const remove = Blobs.use((blobs) => blobs.remove(key))

describe("a signature", () => {
  /** Examples of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html */
  const EXAMPLES = [
    {
      method: "PUT",
      url: "https://examplebucket.s3.amazonaws.com/test$file.text",
      headers: { date: "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY" },
      sha256: "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
      signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
    },
    {
      method: "GET",
      url: "https://examplebucket.s3.amazonaws.com/?lifecycle",
      headers: {},
      sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
    },
    {
      method: "GET",
      url: "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J",
      headers: {},
      sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    }
  ]
  const address = S3Address.parse("s3://examplebucket?region=us-east-1")
  const at = "20130524T000000Z"

  it.live.each(EXAMPLES)("is that of the documentation, for $method $url", ({ signature, ...example }) =>
    Effect.gen(function*() {
      const headers = yield* Effect.promise(() => S3Client.signed({ ...example, address, credentials, at }))
      assert.match(headers.get("authorization") ?? "", new RegExp(`Signature=${signature}$`, "u"))
      assert.include(headers.get("authorization"), "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request")
    }))

  it("is that of the documentation in the test server too", () => {
    const first = {
      method: "GET",
      url: "https://examplebucket.s3.amazonaws.com/test.txt",
      headers: { range: "bytes=0-9" },
      sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    }
    for (const { headers, method, sha256, signature, url } of [first, ...EXAMPLES]) {
      const { host, pathname, searchParams } = new URL(url)
      const all = { ...headers, host, "x-amz-content-sha256": sha256, "x-amz-date": at }
      const given = { method, path: pathname, query: searchParams, headers: all, signedHeaders: Object.keys(all).sort() }
      assert.strictEqual(S3Server.signatureOf({ ...given, secretKey: S3Server.SECRET_KEY, region: "us-east-1" }), signature)
    }
  })
})

live(
  "an object has the prefix, the grant, the hash and the holder in its name, and is made only where there is none",
  (server) =>
    Effect.gen(function*() {
      yield* putBytes(key, content)
      assert.deepStrictEqual(Array.from(server.objects.keys()), [`team/blobs/${nameOf(key)}`])
      assert.deepStrictEqual(server.requests, [`PUT team/blobs/${nameOf(key)}`])
      const { "content-length": length, "if-none-match": match, "x-amz-content-sha256": hash } = server.headers[0] ?? {}
      assert.deepStrictEqual([length, match, hash], [String(content.length), "*", key.sha256])
    })
)

live("without a prefix it is at the top of the bucket", (server) =>
  Effect.gen(function*() {
    yield* putBytes(key, content)
    assert.deepStrictEqual(Array.from(server.objects.keys()), [nameOf(key)])
  }), { prefix: "" })

live("an object that is stored already stays, and the put succeeds", (server) =>
  Effect.gen(function*() {
    for (const [one, bytes] of [[key, Buffer.from(content)], [largeKey, large]] as const) {
      const stored = new Uint8Array(bytes)
      server.objects.set(`team/blobs/${nameOf(one)}`, stored)
      yield* Blobs.use((blobs) => blobs.put(one, inMebibytes(bytes)))
      assert.strictEqual(server.objects.get(`team/blobs/${nameOf(one)}`), stored)
      assert.strictEqual((yield* read(one)).length, bytes.length)
    }
  }))

live("an object with other bytes, fewer or more is damaged", (server) =>
  Effect.gen(function*() {
    for (const other of ["the c0ntent", "the", "the content "]) {
      server.objects.set(`team/blobs/${nameOf(key)}`, Buffer.from(other))
      yield* isMissing(key)
    }
  }))

live("a blob that is larger than what is held in memory is sent as it comes", (server) =>
  Effect.gen(function*() {
    const blobs = yield* Blobs
    yield* blobs.put(largeKey, inMebibytes(large))
    assert.strictEqual((yield* read(largeKey)).length, large.length)
    assert.strictEqual(server.headers[0]?.["content-length"], String(large.length))
    assert.isUndefined(server.headers[0]?.["transfer-encoding"])
    yield* blobs.remove(largeKey)
    const cut = Stream.concat(inMebibytes(large.subarray(0, 8 * MEBIBYTE + 5)), Stream.fail("cut" as const))
    assert.strictEqual(yield* Effect.flip(blobs.put(largeKey, cut)), "cut")
    const wrong = Stream.concat(inMebibytes(large.subarray(1)), Stream.make(new Uint8Array(1)))
    assert.strictEqual(yield* tagOf(blobs.put(largeKey, wrong)), "BlobMismatch")
    assert.strictEqual(yield* tagOf(blobs.put(largeKey, inMebibytes(large.subarray(1)))), "BlobMismatch")
    assert.strictEqual(server.objects.size, 0)
    const dies = yield* Effect.exit(blobs.put(largeKey, Stream.die("bug")))
    assert.isTrue(Exit.isFailure(dies) && Exit.hasDies(dies))
  }))

describe("trouble that passes", () => {
  const PASSING = [{ does: "reset" }, { status: 503, code: "SlowDown" }, { status: 500 }, { status: 429 }, {
    status: 400,
    code: "RequestTimeout"
  }, { status: 409, code: "ConditionalRequestConflict" }] as const

  for (const trouble of PASSING) {
    live(`is met by another attempt: ${JSON.stringify(trouble)}`, (server) =>
      Effect.gen(function*() {
        server.troubles.push(trouble, trouble, trouble, null)
        yield* putBytes(key, content)
        server.troubles.push(trouble)
        assert.strictEqual((yield* read(key)).length, key.size)
        server.troubles.push(trouble, trouble, trouble)
        yield* remove
        assert.strictEqual(server.objects.size, 0)
      }))
  }

  live(
    "is an error of the store after four attempts, with a sentence for people that has no address",
    (server, said) =>
      Effect.gen(function*() {
        for (const use of [putBytes(key, content), Effect.asVoid(read(key)), remove]) {
          server.troubles.push(...Array.from({ length: 4 }, () => ({ status: 503, code: "SlowDown" })))
          const before = server.requests.length
          const error = yield* Effect.flip(use as Effect.Effect<void, Error, Blobs>)
          assert.strictEqual(error.message, "The store of files is not available.")
          assert.strictEqual(server.requests.length - before, 4)
          assert.deepStrictEqual(server.troubles, [])
        }
        assert.match(said[0] ?? "", /^Blobs cannot be kept in 127\.0\.0\.1:\d+, bucket slipway-blobs: SlowDown\./u)
      })
  )

  live("is not met by sending a stream again, of which a part is gone", (server) =>
    Effect.gen(function*() {
      server.troubles.push({ status: 503, code: "SlowDown" })
      assert.strictEqual(yield* tagOf(Blobs.use((blobs) => blobs.put(largeKey, inMebibytes(large)))), "StoreUnavailable")
      assert.strictEqual(server.requests.length, 1)
    }))

  live("in the middle of an answer fails the reader", (server) =>
    Effect.gen(function*() {
      yield* putBytes(key, content)
      server.troubles.push({ does: "cut" })
      assert.strictEqual(yield* tagOf(read(key)), "StoreUnavailable")
      assert.strictEqual((yield* read(key)).length, key.size)
    }))

  it.live("of a store that cannot be reached is reported", () =>
    Effect.gen(function*() {
      const gone = yield* Effect.scoped(Effect.map(S3Server.make(), addressOf))
      yield* on((_, said) =>
        Effect.gen(function*() {
          assert.strictEqual(yield* tagOf(read(key)), "StoreUnavailable")
          assert.match(said.join(), /it refuses connections\. Check the endpoint/u)
        }), { address: gone })
    }))
})

describe("what an operator has to mend", () => {
  const wrongKey = { ...credentials, secretAccessKey: Redacted.make("another") }
  const cases: ReadonlyArray<readonly [string, RegExp, Given]> = [
    ["a wrong secret key", /the secret key is wrong/u, { credentials: Effect.succeed(wrongKey) }],
    ["an unknown key", /does not know the access key/u, { credentials: Effect.succeed({ ...credentials, accessKeyId: "AKOTHER" }) }],
    ["a missing session token", /session token is invalid/u, { server: { sessionToken: "token" } }],
    ["a wrong region", /the region is wrong/u, { server: { region: "us-west-2" } }]
  ]
  for (const [what, expected, given] of cases) {
    live(`is told once, without another attempt: ${what}`, (server, said) =>
      Effect.gen(function*() {
        assert.strictEqual(yield* tagOf(read(key)), "StoreUnavailable")
        assert.strictEqual(server.requests.length, 1)
        assert.match(said.join(), expected)
        assert.notInclude(said.join(), S3Server.SECRET_KEY)
        assert.strictEqual(yield* tagOf(putBytes(key, content)), "StoreUnavailable")
        assert.strictEqual(server.objects.size, 0)
      }), given)
  }

  live("a missing bucket is no missing blob", (server, said) =>
    Effect.gen(function*() {
      const address = { ...addressOf(server), bucket: "another-bucket" }
      const other = BlobsS3.layer({ address, credentials: Effect.succeed(credentials), pauses })
      assert.strictEqual(yield* tagOf(Effect.provide(read(key), other)), "StoreUnavailable")
      assert.strictEqual(yield* tagOf(Effect.provide(remove, other)), "StoreUnavailable")
      assert.match(said.join(), /the bucket does not exist\. Make it/u)
    }))

  live("bytes that arrive changed are refused by the store, and sent again", (server) =>
    Effect.gen(function*() {
      server.troubles.push({ status: 400, code: "XAmzContentSHA256Mismatch" })
      yield* putBytes(key, content)
      assert.deepStrictEqual(server.requests.map((request) => request.slice(0, 4)), ["PUT ", "PUT "])
      assert.strictEqual((yield* read(key)).length, key.size)
    }))
})

live("temporary credentials are sent and signed", (server) =>
  Effect.gen(function*() {
    yield* putBytes(key, content)
    assert.strictEqual(server.headers[0]?.["x-amz-security-token"], "token")
    assert.strictEqual((yield* read(key)).length, key.size)
  }), {
  server: { sessionToken: "token" },
  credentials: Effect.succeed({ ...credentials, sessionToken: Redacted.make("token") })
})

describe("a file of credentials", () => {
  const folder = Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-credentials-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  )
  it.live("is read anew for each request, as AWS writes it", () =>
    Effect.scoped(Effect.gen(function*() {
      const file = path.join(yield* folder, "credentials")
      const written = (secret: string) => {
        const keys = `aws_access_key_id=${S3Server.ACCESS_KEY}\r\naws_secret_access_key = ${secret}\n`
        writeFileSync(file, `[other]\naws_access_key_id = OTHER\n# a comment\n[default]\n${keys}[last]\naws_session_token = no\n`)
      }
      written("expired")
      const given = { credentials: S3Credentials.ofFile(file) }
      yield* on(() =>
        Effect.gen(function*() {
          assert.strictEqual(yield* tagOf(read(key)), "StoreUnavailable")
          written(S3Server.SECRET_KEY)
          yield* putBytes(key, content)
          assert.strictEqual((yield* read(key)).length, key.size)
        }), given)
    })))

  it.live("without keys, or missing, is an error that names the file and nothing in it", () =>
    Effect.scoped(Effect.gen(function*() {
      const file = path.join(yield* folder, "credentials")
      const missing = yield* Effect.flip(S3Credentials.ofFile(file))
      assert.strictEqual(missing.message, `The file of credentials ${file} cannot be read: ENOENT`)
      writeFileSync(file, "aws_secret_access_key = secret-canary\n")
      const { message } = yield* Effect.flip(S3Credentials.ofFile(file))
      assert.include(message, file)
      assert.notInclude(message, "canary")
      yield* on((server, said) =>
        Effect.gen(function*() {
          assert.strictEqual(yield* tagOf(read(key)), "StoreUnavailable")
          assert.deepStrictEqual(server.requests, [])
          assert.include(said.join(), "needs the lines aws_access_key_id")
        }), { credentials: S3Credentials.ofFile(file) })
    })))
})

describe("an address", () => {
  it("says the bucket, the prefix, the region and the endpoint", () => {
    const cases = [
      ["s3://bucket", "https://bucket.s3.us-east-1.amazonaws.com/a/b"],
      ["s3://bucket/", "https://bucket.s3.us-east-1.amazonaws.com/a/b"],
      ["s3://bucket/pre/fix/?region=eu-west-3", "https://bucket.s3.eu-west-3.amazonaws.com/pre/fix/a/b"],
      ["s3://my.bucket/x?region=cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn/my.bucket/x/a/b"],
      ["s3://bucket/x?endpoint=http://minio:9000", "http://minio:9000/bucket/x/a/b"],
      ["s3://bucket?endpoint=https%3A%2F%2Facc.r2.cloudflarestorage.com&region=auto", "https://acc.r2.cloudflarestorage.com/bucket/a/b"]
    ] as const
    for (const [text, url] of cases) {
      assert.isNull(S3Address.problemOf(text), text)
      const address = S3Address.parse(text)
      assert.strictEqual(S3Address.urlOf(address, "a/b"), url)
      assert.deepStrictEqual(S3Address.parse(S3Address.format(address)), address)
    }
  })

  it("is refused with its problem, which has none of its secrets", () => {
    const cases: ReadonlyArray<readonly [string, RegExp]> = [
      ["", /no s3/u],
      ["https://bucket.s3.amazonaws.com", /no s3/u],
      ["s3://", /no s3|bucket/u],
      ["s3://key:secret-canary@bucket/x", /must not have credentials/u],
      ["s3://Bucket_x/x", /bucket is invalid/u],
      ["s3://ab", /bucket is invalid/u],
      ["s3://bucket:90/x", /bucket is invalid/u],
      ["s3://bucket/a//b", /prefix/u],
      ["s3://bucket/a%2fb", /prefix/u],
      ["s3://bucket/.hidden", /prefix/u],
      [`s3://bucket/${"a".repeat(201)}`, /prefix/u],
      ["s3://bucket/x?endpoint=minio:9000", /endpoint/u],
      ["s3://bucket/x?endpoint=https://user:secret-canary@minio", /endpoint/u],
      ["s3://bucket/x?endpoint=https://minio/path", /endpoint/u],
      ["s3://bucket/x?endpoint=ftp://minio", /endpoint/u],
      ["s3://bucket/x?region=EU", /region is invalid/u],
      ["s3://bucket/x?region=a&region=b", /once each/u],
      ["s3://bucket/x?acl=public", /nothing else/u],
      ["s3://bucket/x#y", /nothing else/u]
    ]
    for (const [text, expected] of cases) {
      const problem = S3Address.problemOf(text)
      assert.match(problem ?? "", expected, text)
      assert.notInclude(problem, "canary")
    }
  })
})
