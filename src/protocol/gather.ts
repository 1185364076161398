// A growing run of bytes: what a splice keeps of a packet that it must see whole. Grows with what has arrived, never
// with what a header announces. Knows nothing of frames.

const FIRST = 1024;

export class Gather {
  private bytes = Buffer.allocUnsafe(FIRST);
  length = 0;

  append(from: Buffer, start: number, end: number): void {
    const size = this.length + end - start;
    if (size > this.bytes.length) {
      const grown = Buffer.allocUnsafe(Math.max(size, this.bytes.length * 2));
      this.bytes.copy(grown, 0, 0, this.length);
      this.bytes = grown;
    }
    from.copy(this.bytes, this.length, start, end);
    this.length = size;
  }

  /** The bytes from `start` on, not copied: nothing may be appended any more while they are in use. */
  from(start: number): Buffer {
    return this.bytes.subarray(start, this.length);
  }
}
