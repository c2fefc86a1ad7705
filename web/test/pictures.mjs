// Sixteen encoded frames and their content: 64 x 64 samples, a gray that grows lighter, with
// another hue in each quarter.
// Used by the tests of video; the first and the ninth are keyframes. Lossless in spite of their
// size. Made by ffmpeg -f lavfi -i
// "color=black:size=64x64:rate=30,format=yuv420p,geq=lum='40+8*N':cb='if(lt(X,W/2),90,170)':cr='if(lt(Y,H/2),90,170)'"
// -frames:v 16 -c:v libx264 -profile:v baseline -preset veryslow -tune zerolatency -qp 16
// -x264-params keyint=8:scenecut=0:sliced-threads=0:threads=1 -bsf:v filter_units=remove_types=6 -f
// h264 -

const STREAM = [
  "AAAAAWdCwAqmERCbARAAAAMAEAAAAwPI8SJhGAAAAAFoyEICssgAAAFliIIdCMUAAT344AAh1xwABDrvn44AAkKV9ddPXN0cAASFKWZ6OAAJClLXXT14AAAAAUGaHP8ZFAAxQAMUADFAAxQAMUADFA",
  "AxQAMUADFAAxQAMUADFAAxQAMUADFAA4n+MigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAcT5/P53z/xkUADFAAxQAMUADFAAxQAMUADFAAxQAMUADFAAxQAMUADFAAxQAMU",
  "ADnX4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABzrn8/nfP4AAAAAUGaKj/jIoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAHE/4yKABigAYoAGKA",
  "BigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABxPn8/nfP/jIoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAHOv4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGK",
  "ABigAYoAGKABzrn8/nfP4AAAAAFBmjs/4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABxP+MigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAcT5/P5",
  "3z/4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABzr+MigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAc65/P53z+AAAAABQZpJD/jIoAGKABigAYoA",
  "GKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAHE/4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABxPn8/nfP/jIoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYo",
  "AGKABigAYoAHOv4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABzrn8/nfP4AAAAAUGaWU/4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABxP+Mig",
  "AYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAcT5/P53z/4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABzr+MigAYoAGKABigAYoAGKABigAYoAGKABi",
  "gAYoAGKABigAYoAGKABigAc65/P53z+AAAAAFBmmmP+MigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAcT/jIoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABig",
  "AYoAHE+fz+d8/+MigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAc6/jIoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAHOufz+d8/gAAAABQZp5z/jIoA",
  "GKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAHE/4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABxPn8/nfP/jIoAGKABigAYoAGKABigAYoAGKABigAYo",
  "AGKABigAYoAGKABigAYoAHOv4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABzrn8/nfP4AAAAAWdCwAqmERCbARAAAAMAEAAAAwPI8SJhGAAAAAFoyEICssgAAAFliIEHQj",
  "FAAEPeOAAIdccAAQ675+OAAJClfXXT1zdHAAEhSlmejgACQpS1109eAAAAAUGaHP8ZFAAxQAMUADFAAxQAMUADFAAxQAMUADFAAxQAMUADFAAxQAMUADFAA4n+MigAYoAGKABigAYoAGKABigAYoAG",
  "KABigAYoAGKABigAYoAGKABigAcT5/P53z/xkUADFAAxQAMUADFAAxQAMUADFAAxQAMUADFAAxQAMUADFAAxQAMUADnX4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABzrn",
  "8/nfP4AAAAAUGaKj/jIoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAHE/4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABxPn8/nfP/jIoAGKABigAY",
  "oAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAHOv4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABzrn8/nfP4AAAAAFBmjs/4yKABigAYoAGKABigAYoAGKABigAYo",
  "AGKABigAYoAGKABigAYoAGKABxP+MigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAcT5/P53z/4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABzr+M",
  "igAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAc65/P53z+AAAAABQZpJD/jIoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAHE/4yKABigAYoAGKABigAY",
  "oAGKABigAYoAGKABigAYoAGKABigAYoAGKABxPn8/nfP/jIoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAHOv4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigA",
  "YoAGKABzrn8/nfP4AAAAAUGaWU/4yKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABxP+MigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAcT5/P53z/4y",
  "KABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABzr+MigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAc65/P53z+AAAAAFBmmmP+MigAYoAGKABigAYoAGK",
  "ABigAYoAGKABigAYoAGKABigAYoAGKABigAcT/jIoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAHE+fz+d8/+MigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAG",
  "KABigAc6/jIoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAHOufz+d8/gAAAABQZp5z/jIoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAHE/4yKABigAY",
  "oAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABxPn8/nfP/jIoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAGKABigAYoAHOv4yKABigAYoAGKABigAYoAGKABigAYoAGKABigA",
  "YoAGKABigAYoAGKABzrn8/nfP4",
];

export const SIZE = { width: 64, height: 64 };

/** A frame's sample at x, y of the stream. */
export const sampleOf = (picture, x, y) => ({
  luma: 40 + 8 * picture,
  blue: x < 32 ? 90 : 170,
  red: y < 32 ? 90 : 170,
});

/** Raw: planes Y, Cb, Cr. */
export function plain(picture) {
  const plane = (width, height, sample) =>
    Buffer.from(
      Array.from({ length: width * height }, (_, i) => sample(i % width, Math.floor(i / width))),
    );
  return Buffer.concat([
    plane(64, 64, (x, y) => sampleOf(picture, x, y).luma),
    plane(32, 32, (x, y) => sampleOf(picture, 2 * x, 2 * y).blue),
    plane(32, 32, (x, y) => sampleOf(picture, 2 * x, 2 * y).red),
  ]);
}

/** Red, green and blue of samples, as in doc/protocol.md, section 9. */
export function colorOf({ luma, blue, red }) {
  const [c, d, e] = [298 * (luma - 16) + 128, blue - 128, red - 128];
  return [c + 409 * e, c - 100 * d - 208 * e, c + 516 * d].map((channel) =>
    Math.min(255, Math.max(0, channel >> 8)),
  );
}

/** Each as one access unit, and whether it is a keyframe. */
export const coded = split(Buffer.from(STREAM.join(""), "base64"));

/** The first four in AV1, lossless: the first is the keyframe. */
export const codedAv1 = splitAv1(
  Buffer.from(
    // Made by the same source, with -frames:v 4 -c:v libaom-av1 -usage realtime -lag-in-frames 0
    // -aom-params lossless=1 -f obu -
    [
      "EgAKCgAAAAKv/5tfIAgySBAAgAC0UbTwbW6BGQHnonS0VvgXOP29hXQTilTg4xrvBzzVJicOelDREKtQf75q+fP5ib",
      "wYQNXrjOEU6IDm1bBoI6uduvYGchIAMkEwA4CA/fhGgAEArsgKrfkSvgkcyoXzKfAO5doLw+oJnOdorwLLCVYvTEEc",
      "kbez9i2S2u7f+d5A4cl9vBBjYqgwxRIAMj4wBAEFffhGgAEAqUgTxdE7pFH3BKh4mO4RX0OIfQfgepssXn7HKjv+k9",
      "uE+UShuN3eBks/AP8cHou1My5H2BIAMjwwBgIJ/fhGgAEAo8g4ZMzqpEUpvUz3lHMbLDuQlGdHaAAS/+jZbll5A/9U",
      "UsbnH6bx0xauD6/B6G4eXA4=",
    ].join(""),
    "base64",
  ),
);

/**
 * The same lightness with chroma of full resolution: blue takes turns by columns, which half of it
 * could not show. Made as the first stream, with format=yuv444p, cb='if(mod(X,2),90,170)',
 * -frames:v 4 -profile:v high444 and -qp 8.
 */
export const codedYuv444 = split(
  Buffer.from(
    [
      "AAAAAWf0AAqRiYREJsBEAAADAAQAAAMA8jxImEYAAAABaOhDASxEhEAAAAFliIIdf/p5H/4Lyq0h+L9b/yEcjn/wXd",
      "criVQ8NwsSE3X3fbt+rL9yU3zCzxJc/w+HVsCqR99n1Rvoloac1qrMiSCFsIUNCj/wXdtc/2vJyOq6W9nwSzMNasUr",
      "uUXfkYSslzl4HMZQl73gz1/AbxK6vYdqCfct9vbqJVTZUvbwACC/Dg1cpnsmn+dwKDQOwzq2MPt/LRTkB0zkVzPREg",
      "GIl+ub0zkXwIstsLIEZsfhJFGhr6y7vDubIWFoGAFeUOM7yuCDqFGZ69Z3/5xf/6zf9Dfw47+ZZXDk5G5WXWwzyGLY",
      "MqJqPw3YuRWRytvxAAAAAUGaHGwfBI1//qmdNAAAAAFBmik8EEEGQ2D4JIPggBr+qZ01AAAAAUGaOXwQQQeQ2D4KIP",
      "gkAa/+qZ00",
    ].join(""),
    "base64",
  ),
);

/** A frame's sample at x, y of that stream. */
export const sampleOfYuv444 = (picture, x, y) => ({
  luma: 40 + 8 * picture,
  blue: x % 2 === 1 ? 90 : 170,
  red: y < 32 ? 90 : 170,
});

/** Each frame begins with a temporal delimiter, which has these bytes. */
function splitAv1(bytes) {
  const delimiter = Buffer.from([0x12, 0]);
  const pictures = [];
  for (let at = 0; at < bytes.length; ) {
    const next = bytes.indexOf(delimiter, at + 2);
    const to = next < 0 ? bytes.length : next;
    pictures.push(bytes.subarray(at, to));
    at = to;
  }
  return pictures;
}

/** A frame is one slice (units 1 and 5) with the units before it. */
function split(bytes) {
  const starts = [];
  for (let at = 0; at + 3 < bytes.length; at += 1) {
    if (bytes.readUIntBE(at, 3) === 1)
      starts.push({ at: bytes[at - 1] === 0 ? at - 1 : at, unit: bytes[at + 3] & 31 });
  }
  const pictures = [];
  let from = 0;
  starts.forEach(({ unit }, i) => {
    if (unit !== 1 && unit !== 5) return;
    const to = starts[i + 1]?.at ?? bytes.length;
    pictures.push({ key: unit === 5, data: bytes.subarray(from, to) });
    from = to;
  });
  return pictures;
}
