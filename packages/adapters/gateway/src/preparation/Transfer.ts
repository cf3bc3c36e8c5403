/** Bytes that go to another thread: moved, where nothing else lies in their memory. To copy 32 MiB holds the event loop for 10 ms. */
export const of = ({ buffer, byteLength }: Uint8Array): Array<ArrayBuffer> =>
  buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : []
