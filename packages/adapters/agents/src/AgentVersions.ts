/**
 * The digests of the packages that `slipway agents install` fetches, from the npm registry on the day of `on` (`npm view SPEC
 * dist.integrity`), beside the versions of the profiles. Other packages are never installed. A platform without a build in the registry
 * at that time has no entry.
 */
import type { Platform } from "./Profile.ts"

/** One package of the npm registry. */
export interface Pin {
  /** `name@version`. */
  readonly spec: string
  /** Its folder below `node_modules`. */
  readonly folder: string
  /** SHA-512 of its tarball, in npm's format. */
  readonly integrity: string
}

/** The packages of an agent. */
interface Packages {
  /** The day on which this was the newest version of the registry, as `2026-11-30`. */
  readonly on: string
  /** They belong to every platform. */
  readonly all: ReadonlyArray<Pin>
  /** By platform, `os-arch`. */
  readonly builds: { readonly [platform: string]: ReadonlyArray<Pin> }
}

export const codex: Packages = {
  on: "2026-11-22",
  all: [
    {
      spec: "@openai/codex@0.169.0",
      folder: "@openai/codex",
      integrity: "sha512-KhzYlkKPxoNssR8CEm45IjqnFWn7UtlF4CiD3tOJPea51xBs7MaHy0UQG9GSbCqk6Lrjn5QdJDV0QD1/FgWlGw=="
    }
  ],
  builds: {
    "linux-x64": [
      {
        spec: "@openai/codex@0.169.0-linux-x64",
        folder: "@openai/codex-linux-x64",
        integrity: "sha512-o05NyAOCDygSPRo1yinzxvkRSdmsZyBD9E7mbpmjRanSfM8lypqWtQgEo4XfNkwhuCR2aFu8mlGOsQGFXVbVww=="
      }
    ],
    "linux-arm64": [
      {
        spec: "@openai/codex@0.169.0-linux-arm64",
        folder: "@openai/codex-linux-arm64",
        integrity: "sha512-NZ/DaQUpcQmxmqee7Z9uC1rzw3GhSbooawcaTe1LN5Yk+WlinUKGdTXJgClRT/9ogQEEM9TWxYzvxPfj5G/xFg=="
      }
    ],
    "darwin-x64": [
      {
        spec: "@openai/codex@0.169.0-darwin-x64",
        folder: "@openai/codex-darwin-x64",
        integrity: "sha512-K1FKSsSLl9v3z5TeagBQXyQRDBIGB5Jncy5dxsRxwT3aaTqN3AI8VrCfoxBxKMOOU9O2QX1vg7WkBwNVth/s9A=="
      }
    ],
    "darwin-arm64": [
      {
        spec: "@openai/codex@0.169.0-darwin-arm64",
        folder: "@openai/codex-darwin-arm64",
        integrity: "sha512-5WsWFBbVP78D+6FvNo1MMVxLPZdmcoQlqVJFrF4qx/TmvneLnMQKtLyXkUo54XOTDfoYKpNouTJ/F7gTVA8FnQ=="
      }
    ]
  }
}

export const claude: Packages = {
  on: "2026-11-22",
  all: [
    {
      spec: "@anthropic-ai/claude-code@2.1.329",
      folder: "@anthropic-ai/claude-code",
      integrity: "sha512-WQ7RY331gsODjOoDBbeG1fjMfKY1Ur9yxWAOI9SgdLZvqA9sAREaezXt7e3uNbHlgjVAZg1IqlJT1J7WKViEFA=="
    }
  ],
  builds: {
    "linux-x64": [
      {
        spec: "@anthropic-ai/claude-code-linux-x64@2.1.329",
        folder: "@anthropic-ai/claude-code-linux-x64",
        integrity: "sha512-+n4lu1ubYAp02Y0X/MAUnxw9yY6SHHZ77F+IoW+V0wVoFuiI9opdH6gofjf14gXJCEYMTNpks7Gn1i8XZTKAWA=="
      },
      {
        spec: "@anthropic-ai/claude-code-linux-x64-musl@2.1.329",
        folder: "@anthropic-ai/claude-code-linux-x64-musl",
        integrity: "sha512-EouW7B/aG3GOQBmzN9MxHV9uTOE2r6E+VIlFBrBgIEBuBBF4qH1GTvg5/CVf53gGp4DgVf1CYdBHjS+2NeDP4A=="
      }
    ],
    "linux-arm64": [
      {
        spec: "@anthropic-ai/claude-code-linux-arm64@2.1.329",
        folder: "@anthropic-ai/claude-code-linux-arm64",
        integrity: "sha512-IiG5umFToSCVWqB1lEsxxwIxKgxPXyZ3DRU915v8J4Bz5Q3JpslM0ew1m5yaT+lFXBPvYxmsEgi0XI68XHND0A=="
      },
      {
        spec: "@anthropic-ai/claude-code-linux-arm64-musl@2.1.329",
        folder: "@anthropic-ai/claude-code-linux-arm64-musl",
        integrity: "sha512-uVWrRp60cqvikJ13Rtmlkd8WuJtJEWAuGJzenJ0or0I7by05kRWopFdDdpWYQi8dRIJ6+W9T9w+PA4B+EjfCXQ=="
      }
    ],
    "darwin-x64": [
      {
        spec: "@anthropic-ai/claude-code-darwin-x64@2.1.329",
        folder: "@anthropic-ai/claude-code-darwin-x64",
        integrity: "sha512-6cjJiD19yxOzdnzErJ8ougFKoksK/wUvOJb6V2iCXg1rM9gGEY1I7HE8jQnvh6buAuXHtHaahfoiiISaplOxYg=="
      }
    ],
    "darwin-arm64": [
      {
        spec: "@anthropic-ai/claude-code-darwin-arm64@2.1.329",
        folder: "@anthropic-ai/claude-code-darwin-arm64",
        integrity: "sha512-brgS94FOoB+ekq1gIeNpBtGAbzWxE1UEeBQWfk1KX1BStrMIxwWXriPfQLKEkFTWHpmGXv2fZxxMQJsR+5PhZw=="
      }
    ]
  }
}

export const grok: Packages = {
  on: "2026-11-30",
  all: [
    {
      spec: "@xai-official/grok@1.0.41",
      folder: "@xai-official/grok",
      integrity: "sha512-eRAK7JzMb/sHVfj8VtLJ26LFqVwiI+PPp6lIMxtN/Ys+/AU5XvE20liO2iDitVw4kAlC5iziomgnemGuy/QAPw=="
    }
  ],
  builds: {
    "linux-x64": [
      {
        spec: "@xai-official/grok-linux-x64@1.0.41",
        folder: "@xai-official/grok-linux-x64",
        integrity: "sha512-5KS0AMeGYQh3++0EEZPKVjAcalFQma8K5SKMhBu1k1OVNpA/lO+fRgecS1/kOsLaGaPDPfQm611Z+a5J9dLfAg=="
      }
    ]
  }
}

export const opencode: Packages = {
  on: "2026-11-30",
  all: [
    {
      spec: "opencode-ai@1.18.33",
      folder: "opencode-ai",
      integrity: "sha512-58P1ffLRXiAY4QeoABqUjqf6DEzm1ihpovvn9Ad+oOLbLiwK/rf88wruT9IATJ7AtNjmi8iA7pC8tN4o5y799Q=="
    }
  ],
  builds: {
    "linux-x64": [
      {
        spec: "opencode-linux-x64@1.18.33",
        folder: "opencode-linux-x64",
        integrity: "sha512-q/t/3p2CTxOT9y2kvjesb/LZab2+1eqlhhWA02Be6mjTtmYtNBcBsrI5yDo4Fw7ZSPBW2oyMIGMNRqiKQjiAWw=="
      },
      {
        spec: "opencode-linux-x64-baseline@1.18.33",
        folder: "opencode-linux-x64-baseline",
        integrity: "sha512-1KQGBiiDDeL/VHHbHkOvvFo8Jr97WT5+C1tear+p7IcDTnXgVHXqIjU4O4jM4mHQzykTP2i884FCnW5LDa+zCA=="
      }
    ]
  }
}

/** The packages for the platform; empty: no pinned build exists. */
export const pinned = (pins: Packages, { arch, os }: Platform): ReadonlyArray<Pin> => {
  const build = pins.builds[`${os}-${arch}`]
  return build === undefined ? [] : [...pins.all, ...build]
}
