//! A PNG file from red, green and blue bytes (ISO/IEC 15948): one zlib stream, each row as the difference to the row above.
//!
//! Charts are mostly rows equal to their neighbour, so filter 2 ("up") leaves mostly zeros. No time stamp is written: the same
//! pixels give the same bytes.

use std::io::{Error, ErrorKind, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

/// Encodes `pixels`, three bytes each, in rows from the top.
pub(super) fn encode(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, Error> {
    let stride = width as usize * 3;
    if stride == 0 || pixels.len() != stride * height as usize {
        return Err(Error::new(ErrorKind::InvalidInput, "pixels do not fill the picture"));
    }
    let mut header = Vec::with_capacity(13);
    header.extend_from_slice(&width.to_be_bytes());
    header.extend_from_slice(&height.to_be_bytes());
    // 8 bits per channel, colour type 2 (RGB), deflate, adaptive filters, not interlaced.
    header.extend_from_slice(&[8, 2, 0, 0, 0]);

    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::new(6));
    let mut above = vec![0_u8; stride];
    let mut filtered = Vec::with_capacity(stride + 1);
    for row in pixels.chunks_exact(stride) {
        filtered.clear();
        filtered.push(2);
        filtered.extend(row.iter().zip(&above).map(|(now, up)| now.wrapping_sub(*up)));
        zlib.write_all(&filtered)?;
        above.copy_from_slice(row);
    }

    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut out, *b"IHDR", &header)?;
    chunk(&mut out, *b"IDAT", &zlib.finish()?)?;
    chunk(&mut out, *b"IEND", &[])?;
    Ok(out)
}

/// Appends length, name, body and checksum.
fn chunk(out: &mut Vec<u8>, name: [u8; 4], body: &[u8]) -> Result<(), Error> {
    let length = u32::try_from(body.len()).map_err(|_| Error::new(ErrorKind::InvalidInput, "picture too large"))?;
    let mut crc = Crc::new();
    crc.update(&name);
    crc.update(body);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&name);
    out.extend_from_slice(body);
    out.extend_from_slice(&crc.sum().to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read;

    use super::*;

    #[test]
    fn a_two_by_two_picture_has_the_layout_of_the_standard() {
        // Rows (10, 20, 30)(40, 50, 60) and (11, 20, 30)(40, 50, 59): the second is stored as differences 1 0 0 0 0 255.
        let png = encode(&[10, 20, 30, 40, 50, 60, 11, 20, 30, 40, 50, 59], 2, 2).unwrap();
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        assert_eq!(&png[8..16], b"\0\0\0\x0dIHDR");
        assert_eq!(&png[16..24], &[0, 0, 0, 2, 0, 0, 0, 2]);
        // The checksum of an empty IEND chunk is the same in every PNG file.
        assert_eq!(&png[png.len() - 12..], b"\0\0\0\0IEND\xae\x42\x60\x82");
        // 8 bytes of signature, 25 of IHDR, then length and name of IDAT.
        let length = u32::from_be_bytes(png[33..37].try_into().unwrap()) as usize;
        let mut rows = Vec::new();
        flate2::read::ZlibDecoder::new(&png[41..41 + length]).read_to_end(&mut rows).unwrap();
        assert_eq!(rows, [2, 10, 20, 30, 40, 50, 60, 2, 1, 0, 0, 0, 0, 255]);
    }

    #[test]
    fn pixels_that_do_not_fill_the_picture_are_refused() {
        assert!(encode(&[0; 5], 2, 2).is_err());
    }
}
