// Defines how tests make JPEG and PNG files, in memory.
//
//   std::string bytes = make_png({.width = 2, .height = 1}, {255, 0, 0, 0, 0,
//   9});
#pragma once

#include <png.h>

#include <cstdint>
#include <cstdio> // jpeglib.h needs it
#include <cstdlib>
#include <string>
#include <vector>

#include <jpeglib.h>

namespace zero::test {

struct JpegRequest {
  int width = 1;
  int height = 1;
  int num_components = 3; // 1: grey, 3: red, green and blue, 4: CMYK
  bool progressive = false;
  // Of grey, progressive: in how many scans a coefficient but the first comes.
  // There are 63 of them.
  int scans_per_coefficient = 0; // 0: as is usual
  bool adobe_marker = true; // of CMYK
};

// The first coefficient whole, then all others, bit by bit from the highest.
inline std::vector<jpeg_scan_info> many_scans(int per_coefficient) {
  std::vector<jpeg_scan_info> scans{{1, {0}, 0, 0, 0, 0}};
  for (int coefficient = 1; coefficient < DCTSIZE2; ++coefficient) {
    for (int low = per_coefficient - 1; low >= 0; --low) {
      const int high = low == per_coefficient - 1 ? 0 : low + 1;
      scans.push_back({1, {0}, coefficient, coefficient, high, low});
    }
  }
  return scans;
}

// `pixels` has a byte for each component of each pixel.
inline std::string make_jpeg(
    const JpegRequest& request,
    const std::vector<uint8_t>& pixels) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err =
      ::jpeg_std_error(&errors); // it ends the test if something is wrong
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  ::jpeg_mem_dest(&info, &data, &size);
  info.image_width = static_cast<JDIMENSION>(request.width);
  info.image_height = static_cast<JDIMENSION>(request.height);
  info.input_components = request.num_components;
  info.in_color_space = request.num_components == 1 ? JCS_GRAYSCALE
      : request.num_components == 3                 ? JCS_RGB
                                                    : JCS_CMYK;
  ::jpeg_set_defaults(&info);
  ::jpeg_set_quality(&info, 100, TRUE);
  if (request.progressive) {
    ::jpeg_simple_progression(&info);
  }
  const auto scans = many_scans(request.scans_per_coefficient);
  if (request.scans_per_coefficient > 0) {
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  if (!request.adobe_marker) {
    info.write_Adobe_marker = FALSE;
  }
  ::jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<uint8_t*>(
        pixels.data() +
        info.next_scanline *
            static_cast<size_t>(request.width * request.num_components));
    ::jpeg_write_scanlines(&info, &row, 1);
  }
  ::jpeg_finish_compress(&info);
  ::jpeg_destroy_compress(&info);
  std::string bytes(reinterpret_cast<char*>(data), size);
  std::free(data);
  return bytes;
}

struct PngRequest {
  int width = 1;
  int height = 1;
  int color_type = PNG_COLOR_TYPE_RGB;
  int bit_depth = 8;
  bool interlaced = false;
  std::vector<png_color> palette = {};
};

// `pixels` is row by row as the file has it: with 1 bit, a byte is 8 pixels.
inline std::string make_png(
    const PngRequest& request,
    const std::vector<uint8_t>& pixels) {
  std::string bytes;
  // Without functions of its own it ends the test if something is wrong.
  png_structp png = ::png_create_write_struct(
      PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = ::png_create_info_struct(png);
  ::png_set_write_fn(
      png,
      &bytes,
      [](png_structp writer, png_bytep data, size_t size) {
        static_cast<std::string*>(::png_get_io_ptr(writer))
            ->append(reinterpret_cast<char*>(data), size);
      },
      [](png_structp) {});
  ::png_set_IHDR(
      png,
      info,
      static_cast<png_uint_32>(request.width),
      static_cast<png_uint_32>(request.height),
      request.bit_depth,
      request.color_type,
      request.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
      PNG_COMPRESSION_TYPE_DEFAULT,
      PNG_FILTER_TYPE_DEFAULT);
  if (!request.palette.empty()) {
    ::png_set_PLTE(
        png,
        info,
        request.palette.data(),
        static_cast<int>(request.palette.size()));
  }
  ::png_write_info(png, info);
  std::vector<png_bytep> rows;
  for (int y = 0; y < request.height; ++y) {
    rows.push_back(
        const_cast<png_bytep>(pixels.data()) +
        static_cast<size_t>(y) * ::png_get_rowbytes(png, info));
  }
  ::png_write_image(png, rows.data());
  ::png_write_end(png, info);
  ::png_destroy_write_struct(&png, &info);
  return bytes;
}

} // namespace zero::test
